"""A book as parts that are spoken one by one: cut where it hurts least, nothing lost or said twice.

The parts of a text, joined, are the text. Chapters begin at headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

PART_CHARACTERS = 2000  # some two minutes of speech: what is done again after a death
_HEADING = re.compile(
    r"^(?:#{1,3}[ \t]+\S.*|(?:chapter|part|book|prologue|epilogue|preface)\b[^\n]{0,80})$",
    re.IGNORECASE | re.MULTILINE,
)
_PARAGRAPH = re.compile(r"\n\s*\n+")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*\s+")
_WORD = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    title: str
    """Empty: what comes before the first heading."""
    text: str


def chapters(text: str) -> list[Chapter]:
    """Together they are the text; a text without headings is one."""
    starts = [0, *(match.start() for match in _HEADING.finditer(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(starts)]
    return [Chapter(title=_title(piece), text=piece) for piece in pieces if piece.strip()]


def _title(text: str) -> str:
    match = _HEADING.match(text)
    return match[0].strip("# \t") if match else ""


def parts(text: str, *, characters: int = PART_CHARACTERS) -> Iterator[str]:
    """At most so long each; cut between paragraphs, else sentences, else words."""
    start = 0
    while len(text) - start > characters:
        end = start + _cut(text[start : start + characters])
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _cut(window: str) -> int:
    """Where to end a part that more follows; in its second half, so that parts do not get small."""
    for boundary in (_PARAGRAPH, _SENTENCE, _WORD):
        ends = [match.end() for match in boundary.finditer(window, len(window) // 2)]
        if ends:
            return ends[-1]
    return len(window)


def is_spoken(text: str) -> bool:
    """Whether there is anything in it to be said."""
    return any(character.isalnum() for character in text)
