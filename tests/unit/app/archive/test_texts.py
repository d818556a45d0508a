from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.archive.texts import chapters, is_spoken, parts

BOOK = """Title page

# One

It was a dark night. It rained.

Chapter 2: The storm

More rain. Part of it fell.

EPILOGUE
The end.
"""


@given(st.text(alphabet='ab .!?\n"é', max_size=400), st.integers(2, 50))
def test_parts_joined_are_the_text(text: str, characters: int) -> None:
    cut = list(parts(text, characters=characters))
    assert "".join(cut) == text
    assert all(0 < len(part) <= characters for part in cut)


def test_parts_end_where_it_hurts_least() -> None:
    text = "One two three. Four five six.\n\nSeven eight nine ten eleven twelve thirteen"
    assert list(parts(text, characters=40)) == [
        "One two three. Four five six.\n\n",
        "Seven eight nine ten eleven twelve ",
        "thirteen",
    ]
    assert list(parts("One two three. Four five six.", characters=20)) == [
        "One two three. ",
        "Four five six.",
    ]


def test_chapters_begin_at_headings_and_are_the_text() -> None:
    found = chapters(BOOK)
    assert [chapter.title for chapter in found] == ["", "One", "Chapter 2: The storm", "EPILOGUE"]
    assert "".join(chapter.text for chapter in found) == BOOK


def test_what_can_be_said() -> None:
    assert is_spoken("* a *")
    assert not is_spoken("* * *\n—")
