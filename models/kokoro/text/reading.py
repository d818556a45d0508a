"""How lexemes are read: numbers, money, times, units, abbreviations and addresses as plain words.

Owns the spoken form of a text. It knows nothing of phonemes or of which words a lexicon has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from models.kokoro.text import numbers, tables
from models.kokoro.text.lexemes import Kind, Lexeme, lexemes

ROMAN = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")
GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
ADDRESS_PART = re.compile(r"[^\W\d_]{1,40}+|\d{1,40}+|.", re.DOTALL)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*+://", re.IGNORECASE)
DASHES = frozenset("-–—‒−")
SCRIPTS = {"cjk": "Chinese", "hiragana": "", "katakana": "", "hangul": ""}
"""Scripts whose name differs from Unicode's; an empty one is read by the names of its letters."""


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


NOTHING = Lexeme(kind=Kind.MARK, text="", start=0, end=0, spaced=True)
Reading = tuple[int, list[tuple[Role, str]]]
"""Lexemes consumed, and what is said for them."""


def read(text: str) -> list[Spoken]:
    return list(Reader(lexemes(text)).spoken())


def words(text: str) -> list[tuple[Role, str]]:
    return [(Role.WORD, word) for word in text.split()]


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
        return 1, _word(lexeme.text) if lexeme.kind is Kind.WORD else []

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
        if dash == "-" and not _rises(first, second):
            return 2, words(" ".join(numbers.spelled(first) if first.isdigit() else _number(first)))
        taken, said = self._amount(at + 2)
        return taken + 2, [*words(" ".join([*_number(first), "to"])), *said]

    def _amount(self, at: int) -> Reading:
        """A number and what it counts: 1st, 1990s, 40%, 60°C, 5 km, 5€."""
        text, follower = self._at(at).text, self._at(at + 1)
        suffix = follower.text.lower() if self._joined(at + 1, Kind.WORD) else ""
        if suffix in ("st", "nd", "rd", "th") and text.replace(",", "").isdigit():
            return 2, words(" ".join(numbers.ordinal(text.replace(",", ""))))
        if suffix in ("s", "'s"):
            return 2, words(" ".join(numbers.plural(_number(text, year=True))))
        taken, unit = self._unit(at + 1, one=text == "1")
        said = _number(text, year=not unit)
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
        return 1, words(" ".join(numbers.cardinal(str(_roman_value(text)))))

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
        if self._joined(at + 2, "-–", Kind.NUMBER):
            before, number, taken = f"{' '.join(_number(number))} to ", self._at(at + 3).text, 4
        elif self._joined(at + 2, "-–", self._at(at).text, Kind.NUMBER):
            before, number, taken = f"{' '.join(_number(number))} to ", self._at(at + 4).text, 5
        follower = self._at(at + taken).text
        if follower in tables.MAGNITUDES and (
            len(follower) > 3 or self._joined(at + taken, Kind.WORD)
        ):
            said = [*_number(number), tables.MAGNITUDES[follower], currency.many]
            return taken + 1, words(before + " ".join(said))
        return taken, words(before + " ".join(_price(number, currency)))

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
            or before.kind is Kind.WORD
            and not self._at(at).spaced
        ):
            return None
        return 1, words(tables.BEFORE_NUMBER[text])

    def _dash(self, at: int) -> Reading | None:
        """A dash between words is a pause; a hyphen within one is nothing."""
        lexeme, after = self._at(at), self._at(at + 1)
        if not set(lexeme.text) <= DASHES:
            return None
        pause = lexeme.text not in ("-", "−") or (lexeme.spaced and after.spaced)
        return 1, [(Role.MARK, "—")] if pause and not lexeme.fresh else []

    def _symbol(self, at: int) -> Reading:
        lexeme, before, after = self._at(at), self._at(at - 1), self._at(at + 1)
        text = lexeme.text
        if text == "." and before.kind is Kind.WORD and self._joined(at + 1, Kind.WORD):
            if after.text[0].islower() and not lexeme.spaced:
                return 1, words("dot")
        if set(text) == {"."}:
            return 1, [(Role.MARK, "." if len(text) == 1 else "…")]
        if text == '"':
            opens = lexeme.spaced or before.text in ("(", "[", "—", "“")
            return 1, [(Role.MARK, "“" if opens else "”")]
        if text in tables.PUNCTUATION:
            return 1, [(Role.MARK, tables.PUNCTUATION[text])]
        if text in tables.CURRENCIES:
            return 1, words(tables.CURRENCIES[text].many)
        if text == "/" and not lexeme.spaced and not after.spaced and after is not NOTHING:
            return 1, words("slash")
        return 1, words(tables.SYMBOLS.get(text, ""))


def _rises(first: str, second: str) -> bool:
    """Whether two numbers joined by a hyphen are a range, not a telephone number."""
    plain = [part.replace(",", "") for part in (first, second)]
    try:
        low, high = map(float, plain)
    except ValueError:
        return False
    return low < high and not (len(plain[0]) == 3 and len(plain[1]) == 4) and plain[0][0] != "0"


def _number(text: str, *, year: bool = False) -> list[str]:
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


def _price(number: str, currency: tables.Currency) -> list[str]:
    whole, _, fraction = number.partition(".")
    if not (len(fraction) == 2 and fraction.isdigit()):
        return [*_number(number), currency.one if number == "1" else currency.many]
    units, parts = int(whole.replace(",", "")), int(fraction)
    said = (
        [*_number(whole), currency.one if units == 1 else currency.many]
        if units or not parts
        else []
    )
    if parts:
        said += ["and"] * bool(said) + numbers.cardinal(str(parts))
        said.append(currency.part if parts == 1 else currency.parts)
    return said


def _roman_value(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in text]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )


def _address(lexeme: Lexeme) -> Iterator[Spoken]:
    """example dot com slash path; the scheme is left out, each part keeps its own place."""
    scheme = SCHEME.match(lexeme.text)
    for part in ADDRESS_PART.finditer(lexeme.text, scheme.end() if scheme else 0):
        text = part[0]
        said = (
            _word("www".upper() if text == "www" else text)
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


def _word(text: str) -> list[tuple[Role, str]]:
    """A word in letters that the lexicon and the letter rules know."""
    if text.isascii():
        return [(Role.WORD, text)]
    if len(text) == 1 and text.lower() in tables.GREEK:
        return words(tables.GREEK[text.lower()])
    latin = "".join(map(_latin, text))
    if latin.replace("'", "").replace("-", ""):
        return [(Role.WORD, latin)]
    script = unicodedata.name(text[0], "UNKNOWN").split()[0].lower()
    return [(Role.UNREADABLE, name) for name in (SCRIPTS.get(script, script), "characters")]


def _latin(letter: str) -> str:
    """Letters for a letter; none where only the name of its script can be told."""
    if letter.isascii():
        return letter
    plain = "".join(c for c in unicodedata.normalize("NFKD", letter) if c.isascii())
    if plain:
        return plain
    small = letter.lower()
    table = tables.LATIN.get(small) or tables.CYRILLIC.get(small) or tables.GREEK.get(small, "")[:1]
    if table:
        said = table.strip(".")
        return said.capitalize() if letter.isupper() else said
    script, *_, name = unicodedata.name(letter, "UNKNOWN X").split()
    return name.lower() if SCRIPTS.get(script.lower()) == "" else ""
