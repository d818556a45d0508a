"""What is said for a piece of text: plain words, letters to be named, or marks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    WORD = "word"
    LETTERS = "letters"
    """To be named one by one."""
    MARK = "mark"
    UNREADABLE = "unreadable"
    """Says what stands there instead of reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    role: Role
    text: str
    start: int
    end: int
    """Of the lexemes it came from, in the source."""


def words(text: str) -> list[tuple[Role, str]]:
    return [(Role.WORD, word) for word in text.split()]
