"""How lexemes are read: numbers, money, times, units, abbreviations and addresses as plain words.

Owns the spoken form of a text. It knows nothing of phonemes or of which words a lexicon has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from models.kokoro.text import numbers, tables
from models.kokoro.text.lexemes import Kind, Lexeme, lexemes
from models.kokoro.text.quantities import ROMAN, number_words, price, rises, roman
from models.kokoro.text.scripts import in_latin
from models.kokoro.text.spoken import Role, Spoken, words

ADDRESS_PART = re.compile(r"[^\W\d_]{1,40}+|\d{1,40}+|.", re.DOTALL)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*+://", re.IGNORECASE)
DASHES = frozenset("-–—‒−")
NOTHING = Lexeme(kind=Kind.MARK, text="", start=0, end=0, spaced=True)
Reading = tuple[int, list[tuple[Role, str]]]
"""Lexemes consumed, and what is said for them."""


def read(text: str) -> list[Spoken]:
    return list(Reader(lexemes(text)).spoken())


class Reader:
    def __init__(self, found: Sequence[Lexeme]) -> None:
        self._found = found

    def spoken(self) -> Iterator[Spoken]:
        at = 0
        while at < len(self._found):
            first = self._found[at]
            if first.kind is Kind.ADDRESS:
                yield from _address(first)
                at += 1
                continue
            if first.fresh and at:
                yield Spoken(role=Role.MARK, text=".", start=first.start, end=first.start)
            taken, said = self._read(at)
            end = self._found[at + taken - 1].end
            for role, text in said:
                yield Spoken(role=role, text=text, start=first.start, end=end)
            at += taken

    def _read(self, at: int) -> Reading:
        rules: dict[Kind, tuple[Callable[[int], Reading | None], ...]] = {
            Kind.NUMBER: (self._date, self._time, self._fraction, self._range, self._amount),
            Kind.WORD: (self._abbreviation, self._initial, self._roman, self._month_day),
            Kind.DOTTED: (self._dotted,),
            Kind.MARK: (self._money, self._point, self._sign, self._dash, self._symbol),
            Kind.ADDRESS: (),
        }
        lexeme = self._found[at]
        for rule in rules[lexeme.kind]:
            reading = rule(at)
            if reading is not None:
                return reading
        return 1, in_latin(lexeme.text) if lexeme.kind is Kind.WORD else []

    def _at(self, at: int) -> Lexeme:
        return self._found[at] if 0 <= at < len(self._found) else NOTHING

    def _joined(self, at: int, *kinds: Kind | str) -> bool:
        """Whether what stands from here on is of these kinds (or marks), without a space."""
        return all(
            not self._at(at + n).spaced
            and (
                self._at(at + n).kind is kind
                if isinstance(kind, Kind)
                else self._at(at + n).text in tuple(kind)
            )
            for n, kind in enumerate(kinds)
        )

    # Numbers

    def _date(self, at: int) -> Reading | None:
        """2026-11-29 and 11/29/2026."""
        if not any(
            self._joined(at + 1, mark, Kind.NUMBER, mark, Kind.NUMBER) for mark in ("-", "/")
        ):
            return None
        parts = [self._at(at + n).text for n in (0, 2, 4)]
        if len(parts[0]) == 4:
            parts = [*parts[1:], parts[0]]
        month, day, year = parts
        if not (all(part.isdigit() for part in parts) and len(year) == 4):
            return None
        if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            return None
        said = [tables.MONTHS[int(month) - 1], *numbers.ordinal(str(int(day)))]
        return 5, words(" ".join([*said, *numbers.year(year)]))

    def _time(self, at: int) -> Reading | None:
        """9:30, 9:30PM, 21:05:10."""
        hour, minute = self._at(at).text, self._at(at + 2).text
        if not (self._joined(at + 1, ":", Kind.NUMBER) and hour.isdigit() and minute.isdigit()):
            return None
        if not (len(hour) <= 2 and int(hour) <= 24 and len(minute) == 2 and int(minute) < 60):
            return None
        taken, said = 3, numbers.cardinal(str(int(hour)))
        half = self._half_of_day(at + 3)
        if minute != "00":
            said += (
                ["oh", *numbers.cardinal(minute[1])]
                if minute[0] == "0"
                else numbers.cardinal(minute)
            )
        elif not half:
            said += ["o'clock"] if 1 <= int(hour) <= 12 else ["hundred"]
        if self._joined(at + 3, ":", Kind.NUMBER) and self._at(at + 4).text.isdigit():
            taken, said = (
                5,
                [*said, "and", *numbers.cardinal(str(int(self._at(at + 4).text))), "seconds"],
            )
            half = self._half_of_day(at + 5)
        return taken + bool(half), words(" ".join(said)) + ([(Role.LETTERS, half)] if half else [])

    def _half_of_day(self, at: int) -> str:
        text = self._at(at).text.upper().replace(".", "")
        return text if text in ("AM", "PM") else ""

    def _fraction(self, at: int) -> Reading | None:
        """1/2, 3/4; 24/7 and the like stay numbers."""
        top, bottom = self._at(at).text, self._at(at + 2).text
        if not self._joined(at + 1, "/", Kind.NUMBER) or self._at(at + 3).text == "/":
            return None
        if not (top.isdigit() and bottom.isdigit() and 0 < int(top) < int(bottom) <= 16):
            return None
        name = {2: ["half"], 4: ["quarter"]}.get(int(bottom)) or numbers.ordinal(bottom)
        plural = numbers.plural(name) if int(top) > 1 else name
        return 3, words(" ".join([*numbers.cardinal(str(int(top))), *plural]))

    def _range(self, at: int) -> Reading | None:
        """40–60 is forty to sixty; what is joined by hyphens otherwise is read one by one."""
        if not self._joined(at + 1, "-–‒−", Kind.NUMBER):
            return None
        first, dash, second = (self._at(at + n).text for n in range(3))
        if dash == "-" and not rises(first, second):
            return 2, words(
                " ".join(numbers.spelled(first) if first.isdigit() else number_words(first))
            )
        taken, said = self._amount(at + 2)
        return taken + 2, [*words(" ".join([*number_words(first), "to"])), *said]

    def _amount(self, at: int) -> Reading:
        """A number and what it counts: 1st, 1990s, 9 a.m., 60°C, 5 km, 5€."""
        text, follower = self._at(at).text, self._at(at + 1)
        suffix = follower.text.lower() if self._joined(at + 1, Kind.WORD) else ""
        if suffix in ("st", "nd", "rd", "th") and text.replace(",", "").isdigit():
            return 2, words(" ".join(numbers.ordinal(text.replace(",", ""))))
        if suffix in ("s", "'s"):
            return 2, words(" ".join(numbers.plural(number_words(text, year=True))))
        half = self._half_of_day(at + 1)
        if half and text.isdigit() and int(text) <= 12:
            return 2, [*words(" ".join(numbers.cardinal(text))), (Role.LETTERS, half)]
        taken, unit = self._unit(at + 1, one=text == "1")
        said = number_words(text, year=not unit)
        return 1 + taken, words(" ".join([*said, *unit.split()]))

    def _unit(self, at: int, *, one: bool) -> tuple[int, str]:
        """Lexemes taken, and what they mean; nothing where it is no unit."""
        lexeme, after = self._at(at), self._at(at + 1)
        if lexeme.text == "°":
            scale = {"C": " Celsius", "F": " Fahrenheit"}.get(after.text, "")
            return 1 + bool(scale), ("degree" if one else "degrees") + scale
        if lexeme.text in tables.CURRENCIES and not self._joined(at + 1, Kind.NUMBER):
            currency = tables.CURRENCIES[lexeme.text]
            return 1, currency.one if one else currency.many
        if lexeme.kind is not Kind.WORD or lexeme.text not in tables.UNITS:
            return 0, ""
        unit = tables.UNITS[lexeme.text][0 if one else 1]
        if self._joined(at + 1, "/", Kind.WORD) and self._at(at + 2).text in tables.PER:
            return 3, f"{unit} per {tables.PER[self._at(at + 2).text]}"
        return 1, unit

    # Words

    def _abbreviation(self, at: int) -> Reading | None:
        if not self._joined(at + 1, ".") or self._joined(at + 2, Kind.WORD):
            return None
        key, following = self._at(at).text.lower(), self._at(at + 2)
        if key in tables.BEFORE_NUMBERS_ONLY and following.kind is Kind.NUMBER:
            return 2, words(tables.BEFORE_NUMBERS_ONLY[key])
        if key not in tables.ABBREVIATIONS or self._at(at).text.isupper():
            return None
        named = following.kind is Kind.WORD and following.text[:1].isupper() and not following.fresh
        after_name = key in tables.AFTER_NAME and (not named or self._at(at - 1).text[:1].isupper())
        said = words((tables.AFTER_NAME if after_name else tables.ABBREVIATIONS)[key])
        ends = key in tables.MAY_END_SENTENCE and (key not in tables.AFTER_NAME or after_name)
        if following.text in tables.MONTHS[4:5]:
            ends = ends and following.fresh
        return 2, said + self._full_stop(at + 2, wanted=ends)

    def _full_stop(self, at: int, *, wanted: bool) -> list[tuple[Role, str]]:
        """The mark that an abbreviation's dot is as well, at the end of a sentence."""
        following = self._at(at)
        begins = (
            following is NOTHING
            or following.fresh
            or (following.spaced and following.text[:1].isupper())
        )
        return [(Role.MARK, ".")] if wanted and begins else []

    def _initial(self, at: int) -> Reading | None:
        """J. Smith: the dot of an initial ends nothing."""
        text, following = self._at(at).text, self._at(at + 2)
        if not (len(text) == 1 and text.isupper() and text != "I" and self._joined(at + 1, ".")):
            return None
        if following.kind is not Kind.WORD or not following.text[0].isupper() or following.fresh:
            return None
        return 2, [(Role.LETTERS, text)]

    def _roman(self, at: int) -> Reading | None:
        """World War II."""
        text, before = self._at(at).text, self._at(at - 1)
        if len(text) < 2 or not ROMAN.fullmatch(text) or before.kind is not Kind.WORD:
            return None
        if not before.text[0].isupper() or before.text.isupper():
            return None
        return 1, words(" ".join(numbers.cardinal(str(roman(text)))))

    def _month_day(self, at: int) -> Reading | None:
        """November 29 is November twenty ninth."""
        month, day = self._at(at).text, self._at(at + 1).text
        if month not in tables.MONTHS or not (
            day.isdigit() and len(day) <= 2 and 1 <= int(day) <= 31
        ):
            return None
        if self._joined(at + 2, Kind.WORD) or self._joined(at + 2, "-–:/%", Kind.NUMBER):
            return None
        return 2, words(" ".join([month, *numbers.ordinal(str(int(day)))]))

    def _dotted(self, at: int) -> Reading:
        text = self._at(at).text
        key = text.lower().rstrip(".")
        ended = text.endswith(".") and key in tables.MAY_END_SENTENCE
        said = (
            words(tables.DOTTED[key])
            if key in tables.DOTTED
            else [(Role.LETTERS, key.replace(".", "").upper())]
        )
        return 1, said + self._full_stop(
            at + 1, wanted=ended or (text.endswith(".") and self._at(at + 1) is NOTHING)
        )

    # Marks

    def _money(self, at: int) -> Reading | None:
        """$5.3 billion, $3.50, $5-10, US$5."""
        currency = tables.CURRENCIES.get(self._at(at).text)
        if currency is None or not self._joined(at + 1, Kind.NUMBER):
            return None
        number, taken, before = self._at(at + 1).text, 2, ""
        for dashed in (("-–", Kind.NUMBER), ("-–", self._at(at).text, Kind.NUMBER)):
            if self._joined(at + 2, *dashed):
                before = f"{' '.join(number_words(number))} to "
                taken = 2 + len(dashed)
                number = self._at(at + taken - 1).text
        follower = self._at(at + taken).text
        if follower in tables.MAGNITUDES and (
            len(follower) > 3 or self._joined(at + taken, Kind.WORD)
        ):
            said = [*number_words(number), tables.MAGNITUDES[follower], currency.many]
            return taken + 1, words(before + " ".join(said))
        return taken, words(before + " ".join(price(number, currency)))

    def _point(self, at: int) -> Reading | None:
        """.5"""
        if self._at(at).text != "." or not self._joined(at + 1, Kind.NUMBER):
            return None
        if not (self._at(at).spaced or self._at(at - 1).text in tables.CURRENCIES):
            return None
        digits = self._at(at + 1).text
        return (2, words(" ".join(numbers.decimal("", digits)))) if digits.isdigit() else None

    def _sign(self, at: int) -> Reading | None:
        """#5, ~5, -5, 3 * 5."""
        text = self._at(at).text
        before, after = self._at(at - 1), self._at(at + 1)
        if after.kind is not Kind.NUMBER and after.text not in tables.CURRENCIES:
            return None
        if before.kind is Kind.NUMBER and text in tables.BETWEEN_NUMBERS:
            spoken = text not in DASHES or after.spaced
            return (1, words(tables.BETWEEN_NUMBERS[text])) if spoken else None
        if (
            text not in tables.BEFORE_NUMBER
            or after.spaced
            or (before.kind is Kind.WORD and not self._at(at).spaced)
        ):
            return None
        return 1, words(tables.BEFORE_NUMBER[text])

    def _dash(self, at: int) -> Reading | None:
        """A dash between words is a pause; a hyphen within one is nothing."""
        lexeme, after = self._at(at), self._at(at + 1)
        if not set(lexeme.text) <= DASHES:
            return None
        pause = lexeme.text not in ("-", "−") or (lexeme.spaced and after.spaced)
        starts = at == 0 or lexeme.fresh  # a list item
        return 1, [(Role.MARK, "—")] if pause and not starts else []

    def _symbol(self, at: int) -> Reading:
        mark = self._mark(at)
        return 1, [(Role.MARK, mark)] if mark else words(self._called(at))

    def _mark(self, at: int) -> str:
        lexeme, before = self._at(at), self._at(at - 1)
        if lexeme.text == '"':
            return "“" if lexeme.spaced or before.text in ("(", "[", "—", "“") else "”"
        if set(lexeme.text) == {"."}:
            return ("" if self._inside_name(at) else ".") if len(lexeme.text) == 1 else "…"
        return tables.PUNCTUATION.get(lexeme.text, "")

    def _inside_name(self, at: int) -> bool:
        """The dot of node.js, but not one that only lacks its space."""
        return (
            self._at(at - 1).kind is Kind.WORD
            and self._joined(at, ".", Kind.WORD)
            and self._at(at + 1).text[0].islower()
        )

    def _called(self, at: int) -> str:
        lexeme, after = self._at(at), self._at(at + 1)
        if lexeme.text in tables.CURRENCIES:
            return tables.CURRENCIES[lexeme.text].many
        if lexeme.text == "/":
            return "" if lexeme.spaced or after.spaced else "slash"
        if lexeme.text == ".":
            return "dot"
        digit = unicodedata.digit(lexeme.text, -1) if len(lexeme.text) == 1 else -1
        return tables.SYMBOLS.get(lexeme.text, numbers.ONES[digit] if digit >= 0 else "")


def _address(lexeme: Lexeme) -> Iterator[Spoken]:
    """Said as "example dot com slash path", without the scheme; each part has its own place."""
    scheme = SCHEME.match(lexeme.text)
    for part in ADDRESS_PART.finditer(lexeme.text, scheme.end() if scheme else 0):
        text = part[0]
        said = (
            in_latin("www".upper() if text == "www" else text)
            if text[0].isalpha()
            else words(
                " ".join(numbers.cardinal(text))
                if text.isdigit()
                else tables.IN_ADDRESS.get(text, "")
            )
        )
        for role, spoken in said:
            yield Spoken(
                role=role,
                text=spoken,
                start=lexeme.start + part.start(),
                end=lexeme.start + part.end(),
            )
