"""Cuts text into words, numbers, marks and addresses, each with its place in the source.

Every pattern consumes what it has scanned (possessive quantifiers), so time grows linearly with the
text whatever is in it. It knows nothing of how a lexeme is read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

LONGEST_WORD = 40
"""Letters; what runs on without end is cut, so that no single lexeme grows beyond an utterance."""
LONGEST_NUMBER = 40

LINK = re.compile(r"!?+\[([^\[\]]*+)\]\([^()\[\]\s]*+\)")
CHUNK = re.compile(r"\S++")
BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")
LIST_ITEM = re.compile(r"\n[^\S\n]*+(?:[-*+•#]|[0-9]{1,3}+[.)])[^\S\n]")
ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*+://|www\.)[^\s<>\"]++"
    r"|[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
    r"|(?:[a-z0-9-]++\.)++(?:com|org|net|edu|gov|io|dev|ai|app|info|uk|de|fr|eu)(?:/[^\s<>\"]*+)?",
    re.IGNORECASE,
)
OPENERS = "([{<\"'“‘*_`«"
CLOSERS = ".,;:!?)]}>\"'”’*_`»…"
LETTER = r"[^\W\d_²³¹¼-¾⁰-₉⅐-⅟①-⒛]"
"""Python counts superscripts and fractions as word characters too."""
LEXEME = re.compile(
    rf"(?P<dotted>[A-Za-z](?:\.[A-Za-z])++(?![A-Za-z'’])\.?|[Pp]h\.[Dd]\b\.?)"
    rf"|(?P<word>{LETTER}(?:{LETTER}|[\u0300-\u036f])*+(?:['’ʼ＇-]{LETTER}++)*+)"
    r"|(?P<number>\d++(?:[.,]\d++)*+)"
    r"|(?P<mark>\.{2,}+|-{2,}+|.)",
    re.DOTALL,
)
APOSTROPHES = str.maketrans("’‘ʼ＇", "''''")


class Kind(StrEnum):
    WORD = "word"
    DOTTED = "dotted"
    NUMBER = "number"
    MARK = "mark"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexeme:
    kind: Kind
    text: str
    """Normalised: compatibility forms folded, digits ASCII, apostrophes straight."""
    start: int
    end: int
    spaced: bool
    """White space stands before it."""
    fresh: bool = False
    """A new paragraph or list item begins with it."""


def lexemes(text: str) -> list[Lexeme]:
    found: list[Lexeme] = []
    breaks = _breaks(text)
    for start, end in _read_spans(text):
        for chunk in CHUNK.finditer(text, start, end):
            fresh = False
            while breaks and breaks[-1] <= chunk.start():
                fresh = bool(breaks.pop() is not None)
            found.extend(_chunk(chunk[0], chunk.start(), text=text, fresh=fresh))
    return found


def _breaks(text: str) -> list[int]:
    """Where paragraphs and list items begin, last one first."""
    places = {
        match.start() for pattern in (BLANK_LINE, LIST_ITEM) for match in pattern.finditer(text)
    }
    return sorted(places, reverse=True)


def _read_spans(text: str) -> Iterator[tuple[int, int]]:
    """All of the text but the brackets and targets of Markdown links."""
    done = 0
    for link in LINK.finditer(text):
        yield done, link.start()
        yield link.span(1)
        done = link.end()
    yield done, len(text)


def _chunk(chunk: str, at: int, *, text: str, fresh: bool) -> Iterator[Lexeme]:
    core = chunk.lstrip(OPENERS)
    before = len(chunk) - len(core)
    core = core.rstrip(CLOSERS)
    spaced = at == 0 or text[at - 1].isspace()
    if not ({"@", ".", "/"} & set(core) and ADDRESS.fullmatch(core)):
        yield from _plain(chunk, at, spaced=spaced, fresh=fresh)
        return
    yield from _plain(chunk[:before], at, spaced=spaced, fresh=fresh)
    start, end = at + before, at + before + len(core)
    yield Lexeme(
        kind=Kind.ADDRESS,
        text=core,
        start=start,
        end=end,
        spaced=spaced,
        fresh=fresh and not before,
    )
    yield from _plain(chunk[before + len(core) :], end, spaced=False, fresh=False)


def _plain(chunk: str, at: int, *, spaced: bool, fresh: bool) -> Iterator[Lexeme]:
    for match in LEXEME.finditer(chunk):
        kind = Kind(str(match.lastgroup))
        first = match.start() == 0
        for start, end in _pieces(kind, match):
            yield Lexeme(
                kind=kind,
                text=_normal(chunk[start:end], kind),
                start=at + start,
                end=at + end,
                spaced=spaced and first,
                fresh=fresh and start == 0,
            )


def _pieces(kind: Kind, match: re.Match[str]) -> Iterator[tuple[int, int]]:
    start, end = match.span()
    longest = {Kind.WORD: LONGEST_WORD, Kind.NUMBER: LONGEST_NUMBER}.get(kind, end - start)
    for first in range(start, end, longest):
        yield first, min(end, first + longest)


def _normal(text: str, kind: Kind) -> str:
    if text.isascii() or kind is Kind.MARK:
        return text
    folded = unicodedata.normalize("NFKC", text).translate(APOSTROPHES)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in folded)
