"""Written numbers, with their commas and points, in words; prices and Roman numerals."""

from __future__ import annotations

import re

from models.kokoro.text import numbers
from models.kokoro.text.tables import Currency

ROMAN = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")
GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")


def rises(first: str, second: str) -> bool:
    """Whether two numbers joined by a hyphen are a range, not a telephone number."""
    plain = [part.replace(",", "") for part in (first, second)]
    try:
        low, high = map(float, plain)
    except ValueError:
        return False
    return low < high and not (len(plain[0]) == 3 and len(plain[1]) == 4) and plain[0][0] != "0"


def number_words(text: str, *, year: bool = False) -> list[str]:
    """The words of a number lexeme: digits, groups of three, a decimal, or parts one by one."""
    if text.isdigit():
        return numbers.year(text) if year and numbers.is_year(text) else numbers.cardinal(text)
    whole, _, fraction = text.partition(".")
    if fraction.isdigit() and (whole.isdigit() or GROUPED.fullmatch(whole)):
        return numbers.decimal(whole.replace(",", ""), fraction)
    if GROUPED.fullmatch(text):
        return numbers.cardinal(text.replace(",", ""))
    parts = [" ".join(numbers.cardinal(part)) for part in re.split("[.,]", text) if part]
    return (" point " if "." in text else " ").join(parts).split()


def price(amount: str, currency: Currency) -> list[str]:
    whole, _, fraction = amount.partition(".")
    if not (len(fraction) == 2 and fraction.isdigit()):
        return [*number_words(amount), currency.one if amount == "1" else currency.many]
    units, parts = int(whole.replace(",", "")), int(fraction)
    said: list[str] = []
    if units or not parts:
        said = [*number_words(whole), currency.one if units == 1 else currency.many]
    if parts:
        said += ["and"] * bool(said) + numbers.cardinal(str(parts))
        said.append(currency.part if parts == 1 else currency.parts)
    return said


def roman(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in text]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
