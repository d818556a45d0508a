"""The pronouncing dictionary: words, their inflections and compounds, acronyms; else letter rules.

It reads misaki's American lexicon (two JSON files: hand-checked, then the rest) and answers with
phonemes for any word of ASCII letters: none is left without. It knows nothing of sentences, but is
told whether a pause follows and what part of speech its neighbours suggest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.base import CheckpointError
from models.kokoro.text import letters

Entry = str | dict[str, str | None]

PRIMARY, SECONDARY = "ˈ", "ˌ"
DIPHTHONGS = "AIOQWY"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐ")
FLAPS_AFTER = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
"""Vowels after which an American t between vowels becomes a flap."""
SHORTEST_PART = 3
"""Letters of either half of a compound."""
READ = 4
"""Letters from which capitals are a word if the lexicon knows it in small letters."""
SPELLED = 5
"""Letters up to which unknown capitals are named one by one."""
NAMES = {"a": "ˈA"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    pause: bool = False
    """A mark or the end follows."""
    tag: str = ""
    """NOUN, VERB or VBN, where the neighbours suggest it."""
    shouting: bool = False
    """The neighbours are in capitals too, so that capitals say nothing."""


class Lexicon:
    def __init__(self, gold: Mapping[str, Entry], silver: Mapping[str, Entry]) -> None:
        self._gold, self._silver = gold, silver

    @classmethod
    def read(cls, folder: Path) -> Lexicon:
        return cls(_entries(folder / "us_gold.json"), _entries(folder / "us_silver.json"))

    def pronounce(self, word: str, context: Context) -> str:
        """Of a word in letters, with hyphens and apostrophes inside."""
        known = self._known(word, context)
        if known:
            return known
        if "-" in word:
            return " ".join(self.pronounce(part, context) for part in word.split("-") if part)
        parts = _by_capitals(word)
        if len(parts) > 1:
            return "".join(self.pronounce(part, context) for part in parts)
        return self._unknown(word, context)

    def spell(self, word: str) -> str:
        """The names of the letters, the last one stressed."""
        names = [
            NAMES.get(letter) or self._name(letter) for letter in word.lower() if letter.isalpha()
        ]
        quiet = [name.replace(PRIMARY, SECONDARY) for name in names[:-1]]
        return "".join([*quiet, *names[-1:]])

    def _name(self, letter: str) -> str:
        return self._default(self._gold.get(letter.upper())) or letters.pronounce(letter)

    def _known(self, word: str, context: Context) -> str:
        if word.isupper() and len(word) > 1:
            return self._capitals(word, context)
        found = self._entry(word, context) or self._entry(word.lower(), context)
        found = found or self._entry(word.capitalize(), context)
        if found:
            return _weighted(found) if word[0].isupper() else found
        return self._inflected(word.lower(), context)

    def _capitals(self, word: str, context: Context) -> str:
        exact = self._gold.get(word, self._silver.get(word))
        if isinstance(exact, dict) and exact.get("NOUN", "") is None and not context.shouting:
            return self.spell(word)
        if exact is not None:
            return self._choose(exact, context)
        common = self._entry(word.lower(), context) or self._inflected(word.lower(), context)
        if common and (context.shouting or len(word) >= READ or word.lower() in self._gold):
            return _weighted(common)
        return ""

    def _entry(self, word: str, context: Context) -> str:
        return self._choose(self._gold.get(word, self._silver.get(word)), context)

    def _choose(self, entry: Entry | None, context: Context) -> str:
        if isinstance(entry, dict):
            if context.pause and entry.get("None"):
                return entry["None"] or ""
            return entry.get(context.tag) or self._default(entry)
        return entry or ""

    def _default(self, entry: Entry | None) -> str:
        if isinstance(entry, dict):
            return entry.get("DEFAULT") or ""
        return entry or ""

    def _inflected(self, word: str, context: Context) -> str:
        for ending, stems, join in (
            ("s", _stems_of_s, _with_s),
            ("d", _stems_of_ed, _with_ed),
            ("ing", _stems_of_ing, _with_ing),
            ("'", lambda whole: [whole[:-1]], str),
        ):
            if word.endswith(ending):
                for stem in stems(word):
                    found = self._entry(stem, context) or self._entry(stem.capitalize(), context)
                    if len(stem) > 1 and found:
                        return join(found)
        return ""

    def _unknown(self, word: str, context: Context) -> str:
        lower = word.lower().replace("'", "")
        stem, _, ending = word.partition("'")
        if ending.lower() == "s" and stem:
            return _with_s(self.pronounce(stem, context))
        vowels = any(letter in "aeiou" for letter in lower) or ("y" in lower and len(lower) > 3)
        if not vowels or len(lower) == 1 or (word.isupper() and len(lower) <= SPELLED):
            return self.spell(lower)
        return self._compound(lower, context) or letters.pronounce(lower)

    def _compound(self, word: str, context: Context) -> str:
        """Two known words in one, the first as long as may be."""
        for cut in range(len(word) - SHORTEST_PART, SHORTEST_PART - 1, -1):
            first, second = self._entry(word[:cut], context), self._entry(word[cut:], context)
            if first and second:
                return first + second.replace(PRIMARY, SECONDARY)
        return ""


def _entries(file: Path) -> dict[str, Entry]:
    try:
        entries = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: no lexicon there: {error}") from error
    if not isinstance(entries, dict):
        raise CheckpointError(f"{file}: a lexicon is a JSON object")
    return entries


def _by_capitals(word: str) -> list[str]:
    """GitHub is Git, Hub; HTTPServer is HTTP, Server; iOS is i, OS."""
    parts, start = [], 0
    for at in range(1, len(word)):
        rises = word[at].isupper() and word[at - 1].islower()
        falls = word[at].isupper() and word[at - 1].isupper() and word[at + 1 : at + 2].islower()
        if (rises or falls) and word[at + 1 : at + 2] != "'" and word[at:].lower() != "s":
            parts.append(word[start:at])
            start = at
    return [*parts, word[start:]]


def _weighted(phonemes: str) -> str:
    """A capitalised word carries at least a secondary stress."""
    if PRIMARY in phonemes or SECONDARY in phonemes:
        return phonemes
    for place, phone in enumerate(phonemes):
        if phone in VOWELS:
            return phonemes[:place] + SECONDARY + phonemes[place:]
    return phonemes


def _stems_of_s(word: str) -> list[str]:
    if word.endswith("ss"):
        return []
    if word.endswith("'s"):
        return [word[:-2]]
    ies = [f"{word[:-3]}y"] if word.endswith("ies") else []
    return [word[:-1], *ies, *([word[:-2]] if word.endswith("es") else [])]


def _stems_of_ed(word: str) -> list[str]:
    if not word.endswith("ed"):
        return [word[:-2]] if word.endswith("'d") else []
    ied = [f"{word[:-3]}y"] if word.endswith("ied") else []
    return [word[:-1], word[:-2], *ied, *_undoubled(word[:-2])]


def _stems_of_ing(word: str) -> list[str]:
    return [word[:-3], f"{word[:-3]}e", *_undoubled(word[:-3])]


def _undoubled(stem: str) -> list[str]:
    return [stem[:-1]] if len(stem) > 2 and stem[-1] == stem[-2] else []


def _with_s(stem: str) -> str:
    if stem[-1] in "ptkfθ":
        return f"{stem}s"
    return f"{stem}ᵻz" if stem[-1] in "szʃʒʧʤ" else f"{stem}z"


def _with_ed(stem: str) -> str:
    if stem[-1] in "pkfθʃsʧ":
        return f"{stem}t"
    if stem[-1] == "t" and stem[-2:-1] in FLAPS_AFTER:
        return f"{stem[:-1]}ɾᵻd"
    return f"{stem}ᵻd" if stem[-1] in "td" else f"{stem}d"


def _with_ing(stem: str) -> str:
    if stem[-1] == "t" and stem[-2:-1] in FLAPS_AFTER:
        return f"{stem[:-1]}ɾɪŋ"
    return f"{stem}ɪŋ"
