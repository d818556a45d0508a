"""The spoken forms of what is not plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.kokoro.text.reading import read
from models.kokoro.text.spoken import Role


def said(text: str) -> str:
    return " ".join(one.text for one in read(text))


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # money
        ("$5.3 billion", "five point three billion dollars"),
        ("$100", "one hundred dollars"),
        ("$1", "one dollar"),
        ("$3.50", "three dollars and fifty cents"),
        ("$0.99", "ninety nine cents"),
        ("$1.01", "one dollar and one cent"),
        ("£2.50", "two pounds and fifty pence"),
        ("5€", "five euros"),
        ("$5-10", "five to ten dollars"),
        ("$5–$10", "five to ten dollars"),
        ("$2M", "two million dollars"),
        # times and dates
        ("9:30PM", "nine thirty PM"),
        ("9:30 p.m.", "nine thirty PM"),
        ("9:05", "nine oh five"),
        ("10:00", "ten o'clock"),
        ("5 am", "five AM"),
        ("November 29, 2026", "November twenty ninth , twenty twenty six"),
        ("2026-11-29", "November twenty ninth twenty twenty six"),
        ("7/4/1976", "July fourth nineteen seventy six"),
        ("in 1969", "in nineteen sixty nine"),
        ("the 1990s", "the nineteen nineties"),
        # numbers
        ("10,000", "ten thousand"),
        ("1,234,567", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("3.14", "three point one four"),
        (".5", "point five"),
        ("1st 22nd", "first twenty second"),
        ("2.0.1", "two point zero point one"),
        ("-5", "minus five"),
        ("50%", "fifty percent"),
        ("1/2 3/4", "one half three quarters"),
        ("½", "one half"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("#5", "number five"),
        ("555-1234", "five five five twelve thirty four"),
        ("3-5 days", "three to five days"),
        # units
        ("40–60°C", "forty to sixty degrees Celsius"),
        ("5 km/h", "five kilometers per hour"),
        ("1 GB", "one gigabyte"),
        ("10kg", "ten kilograms"),
        # abbreviations
        (
            "Dr. Smith lives on Elm Dr., etc. Then",
            "doctor Smith lives on Elm drive , et cetera . Then",
        ),
        ("Mr. and Mrs. Jones", "mister and missus Jones"),
        ("St. John St. is", "saint John street is"),
        ("e.g. this, i.e. that", "for example this , that is that"),
        ("No. 5, no.", "number five , no ."),
        ("U.S. J. Smith", "US J Smith"),
        ("World War II", "World War two"),
        # addresses
        ("https://example.com/path?q=1", "example dot com slash path question mark q equals one"),
        ("jane.doe@example.com.", "jane dot doe at example dot com ."),
        ("github.com", "github dot com"),
        # marks and markup
        ("I’m", "I'm"),
        ("[the text](http://example.com/x)", "the text"),
        ("**bold** `code`", "bold code"),
        ("yes 😀 no ★", "yes no"),
        ("& more — yes", "and more — yes"),
        ("Wait...", "Wait …"),
        ('"Quoted" (so)', "“ Quoted ” ( so )"),
        ("one\n\ntwo", "one . two"),
        ("- one\n- two", "one . two"),
        # letters beyond ASCII
        ("café Zürich Straße", "cafe Zurich Strasse"),
        ("Москва", "Moskva"),
        ("한국", "hangug"),
        ("１２", "twelve"),
        ("中文", "Chinese characters"),
        ("ˇ", "caron characters"),  # a letter whose name is one word
    ],
)
def test_spoken_form(text, spoken):
    assert said(text) == spoken


def test_curly_apostrophes_are_straight():
    assert [one.text for one in read("I’m here, dogs’ and ‘so’")] == [
        one.text for one in read("I'm here, dogs' and 'so'")
    ]


def test_acronyms_with_dots_are_named_by_letter():
    assert [one.role for one in read("U.S. p.m.")] == [Role.LETTERS, Role.LETTERS, Role.MARK]


def test_every_piece_knows_its_place():
    text = "Pay $5.30 to jane@example.com"
    assert [text[one.start : one.end] for one in read(text)][:7] == [
        "Pay", *["$5.30"] * 5, "to",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "flood",
    [
        "1",
        "1,",
        "1.",
        "1-",
        "1:",
        "$1,",
        "a.",
        "a@",
        "a'",
        "[a](",
        "[",
        "(",
        "'",
        "-",
        "\n",
        "/",
        ".a",
        "1/",
        "www.",
    ],
)
def test_floods_take_linear_time(flood):
    """With a quadratic pattern this would run into the suite's timeout."""
    text = flood * 20_000
    assert all(0 <= one.start <= one.end <= len(text) for one in read(text))


@given(st.text(max_size=60))
def test_any_text_is_read_in_order(text):
    starts = [one.start for one in read(text)]
    assert starts == sorted(starts)


@given(st.text(alphabet="aB1. ,:$%-–/°'@\n\"#~()[]CkmGb½ é中😀", max_size=40))
def test_no_letter_or_digit_is_lost(text):
    spans = [(one.start, one.end) for one in read(text)]
    lost = [
        c for at, c in enumerate(text) if c.isalnum() and not any(s <= at < e for s, e in spans)
    ]
    assert not lost or "](" in text
