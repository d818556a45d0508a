from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.kokoro.text import numbers


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("0", "zero"),
        ("7", "seven"),
        ("19", "nineteen"),
        ("20", "twenty"),
        ("21", "twenty one"),
        ("100", "one hundred"),
        ("110", "one hundred ten"),
        ("999", "nine hundred ninety nine"),
        ("1000", "one thousand"),
        ("2026", "two thousand twenty six"),
        ("1000001", "one million one"),
        (
            "999999999999",
            "nine hundred ninety nine billion nine hundred ninety nine million nine hundred ninety nine thousand nine hundred ninety nine",
        ),
        ("1000000000000", "one" + " zero" * 12),
        ("007", "zero zero seven"),
    ],
)
def test_cardinal(digits, words):
    assert " ".join(numbers.cardinal(digits)) == words


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("1", "first"),
        ("2", "second"),
        ("12", "twelfth"),
        ("20", "twentieth"),
        ("23", "twenty third"),
        ("100", "one hundredth"),
    ],
)
def test_ordinal(digits, words):
    assert " ".join(numbers.ordinal(digits)) == words


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("1969", "nineteen sixty nine"),
        ("1900", "nineteen hundred"),
        ("1905", "nineteen oh five"),
        ("2000", "two thousand"),
        ("2009", "two thousand nine"),
        ("2026", "twenty twenty six"),
    ],
)
def test_year(digits, words):
    assert " ".join(numbers.year(digits)) == words


def test_decimal_and_plural():
    assert numbers.decimal("3", "14") == ["three", "point", "one", "four"]
    assert numbers.decimal("", "5") == ["point", "five"]
    assert numbers.plural(["nineteen", "ninety"]) == ["nineteen", "nineties"]
    assert numbers.plural(["six"]) == ["sixes"]


def value_of(words: list[str]) -> int:
    total = group = 0
    for word in words:
        if word == "hundred":
            group *= 100
        elif word in numbers.SCALES:
            total += group * 1000 ** numbers.SCALES.index(word)
            group = 0
        elif word in numbers.ONES:
            group += numbers.ONES.index(word)
        else:
            group += 10 * numbers.TENS.index(word)
    return total + group


@given(st.integers(0, 10**12 - 1))
def test_words_give_the_number_back(value):
    assert value_of(numbers.cardinal(str(value))) == value
