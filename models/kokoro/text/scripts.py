"""Words of any script in Latin letters that the lexicon and the letter rules know."""

from __future__ import annotations

import unicodedata

from models.kokoro.text import tables
from models.kokoro.text.spoken import Role, words

SCRIPTS = {"cjk": "Chinese", "hiragana": "", "katakana": "", "hangul": ""}
"""Scripts whose name differs from Unicode's; an empty one is read by the names of its letters."""


def in_latin(text: str) -> list[tuple[Role, str]]:
    if text.isascii():
        return [(Role.WORD, text)]
    if len(text) == 1 and text.lower() in tables.GREEK:
        return words(tables.GREEK[text.lower()])
    latin = "".join(map(_latin, text))
    if latin.replace("'", "").replace("-", ""):
        return [(Role.WORD, latin)]
    script = unicodedata.name(text[0], "UNKNOWN").split()[0].lower()
    return [(Role.UNREADABLE, name) for name in (SCRIPTS.get(script, script), "characters")]


def _latin(letter: str) -> str:
    """Letters for a letter; none where only the name of its script can be told."""
    if letter.isascii():
        return letter
    plain = "".join(c for c in unicodedata.normalize("NFKD", letter) if c.isascii())
    if plain:
        return plain
    small = letter.lower()
    table = tables.LATIN.get(small) or tables.CYRILLIC.get(small) or tables.GREEK.get(small, "")[:1]
    if table:
        said = table.strip(".")
        return said.capitalize() if letter.isupper() else said
    name = unicodedata.name(letter, "UNKNOWN").lower().split()  # one word, as CARON, or several
    return name[-1] if SCRIPTS.get(name[0]) == "" else ""
