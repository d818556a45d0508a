from __future__ import annotations

import pytest

from app.broker import Piece
from app.jobs.follow import Text, TextLost


def said(text: Text, attempt: int, *words: str, start: int = 0) -> str:
    pieces = [
        Piece(attempt=attempt, number=number, text=word) for number, word in enumerate(words, start)
    ]
    return "|".join(text.take(piece) for piece in pieces)


def test_pieces_in_order() -> None:
    assert said(Text(), 1, "", "a", "b", "cd") == "|a|b|cd"


def test_a_later_attempt_only_adds() -> None:
    text = Text()
    said(text, 1, "", "ab", "cd")
    assert said(text, 2, "", "a", "bc", "de", "f") == "|||e|f"
    assert text.told == "abcdef"


def test_a_later_attempt_that_hears_something_else_ends_the_stream() -> None:
    text = Text()
    said(text, 1, "", "ab", "cd")
    with pytest.raises(TextLost):
        said(text, 3, "", "ab", "x")


@pytest.mark.parametrize(
    ("attempt", "number"), [(1, 2), (1, 4), (2, 1), (2, 3)], ids=["doubled", "gap", "new", "both"]
)
def test_a_missing_piece_ends_the_stream(attempt: int, number: int) -> None:
    text = Text()
    said(text, 1, "", "ab", "cd")
    with pytest.raises(TextLost):
        said(text, attempt, "ef", start=number)


def test_the_first_piece_may_not_be_missing() -> None:
    with pytest.raises(TextLost):
        said(Text(), 1, "ab", start=1)


def test_the_rest_of_the_stored_text() -> None:
    text = Text()
    said(text, 1, "", "ab")
    assert text.rest("abc") == "c"
    assert text.rest("abc") == ""
    with pytest.raises(TextLost):
        text.rest("xbcd")
