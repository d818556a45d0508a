"""Numbers in English words. Pure functions of digits; they know nothing of what is counted."""

# ruff: noqa: SIM905 -- a row of words reads better than a column of strings

from __future__ import annotations

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "- ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = ("", "thousand", "million", "billion")
MOST_DIGITS = 12
"""A longer number is read digit by digit."""
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def cardinal(digits: str) -> list[str]:
    """``2026`` is two thousand twenty six; a leading zero or too many digits: one by one."""
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and len(digits) > 1):
        return spelled(digits)
    words: list[str] = []
    value = int(digits)
    for scale in reversed(range(len(SCALES))):
        group = value // 1000**scale % 1000
        if group:
            words += _below_thousand(group) + [SCALES[scale]] * (scale > 0)
    return words or ["zero"]


def spelled(digits: str) -> list[str]:
    return [ONES[int(digit)] for digit in digits]


def ordinal(digits: str) -> list[str]:
    *before, last = cardinal(digits)
    return [*before, ORDINALS.get(last) or _regular_ordinal(last)]


def decimal(whole: str, fraction: str) -> list[str]:
    return [*(cardinal(whole) if whole else []), "point", *spelled(fraction)]


def year(digits: str) -> list[str]:
    """Four digits, read in pairs where people do so: nineteen sixty nine, two thousand nine."""
    century, rest = digits[:2], digits[2:]
    if century[1] == "0" and rest[0] == "0":
        return cardinal(digits)
    if rest == "00":
        return [*cardinal(century), "hundred"]
    return [*cardinal(century), *(["oh", ONES[int(rest)]] if rest[0] == "0" else cardinal(rest))]


def is_year(digits: str) -> bool:
    return len(digits) == 4 and ("1100" <= digits < "2100")


def plural(words: list[str]) -> list[str]:
    """Of a number: nineteen nineties, hundreds."""
    *before, last = words
    if last.endswith("y"):
        return [*before, f"{last[:-1]}ies"]
    return [*before, f"{last}es" if last.endswith("x") else f"{last}s"]


def _below_thousand(value: int) -> list[str]:
    hundreds, rest = divmod(value, 100)
    return (
        [ONES[hundreds], "hundred"] * (hundreds > 0)
        + [TENS[rest // 10]] * (rest >= 20)
        + [ONES[rest % 10 if rest >= 20 else rest]] * (rest > 0 and (rest < 20 or rest % 10 > 0))
    )


def _regular_ordinal(word: str) -> str:
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"
