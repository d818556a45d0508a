"""Grapheme to phoneme for American English: a text becomes units of phonemes with their places.

Owns what depends on a word's neighbours: weak forms, parts of speech by simple signs, marks. Only
characters of the checkpoint's vocabulary leave it. It knows nothing of utterances.
"""

# ruff: noqa: SIM905 -- a row of words reads better than a column of strings

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from models.kokoro.text.lexicon import VOWELS, Context, Lexicon
from models.kokoro.text.reading import read
from models.kokoro.text.spoken import Role, Spoken

SENTENCE_ENDS = frozenset(".!?…")
PAUSES = frozenset(";:,.!?—…")
OPENING = frozenset("(“")
BEFORE_VERB = frozenset(
    "to will would can could may might must shall should don't doesn't didn't i you we they "
    "won't can't couldn't wouldn't let's please".split()
)
BEFORE_NOUN = frozenset("the a an my your his her its our their no some any every each of".split())
BEFORE_PARTICIPLE = frozenset(
    "have has had having been i've you've we've they've he'd she'd".split()
)
WEAK = {
    "a": ("ɐ", "ɐ", "ɐ"),
    "A": ("ˈA", "ɐ", "ɐ"),
    "an": ("ɐn", "ɐn", "ɐn"),
    "the": ("ðə", "ði", "ðə"),
    "to": ("tu", "tʊ", "tə"),
    "in": ("ˈɪn", "ɪn", "ɪn"),
    "I": ("ˌI", "ˌI", "ˌI"),
    "am": ("æm", "ɐm", "ɐm"),
}
"""Before a pause, before a vowel, before a consonant."""
AS_SPOKEN = str.maketrans({"ɾ": "T", "ʔ": "t"})
"""The lexicon's flap and glottal stop, as version 1.0 of the network was taught them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A word or a mark: phonemes, and where in the source it stands."""

    phonemes: str
    start: int
    end: int
    role: Role

    @property
    def is_word(self) -> bool:
        return self.role is not Role.MARK

    @property
    def ends_sentence(self) -> bool:
        return not self.is_word and self.phonemes in SENTENCE_ENDS

    @property
    def ends_clause(self) -> bool:
        return not self.is_word and self.phonemes in PAUSES


class G2p:
    def __init__(self, lexicon: Lexicon, vocab: Collection[str]) -> None:
        self._lexicon, self._vocab = lexicon, frozenset(vocab)

    def __call__(self, text: str) -> list[Unit]:
        spoken = _tidy(read(text))
        units: list[Unit] = []
        following = ""
        for at in reversed(range(len(spoken))):
            one = spoken[at]
            phonemes = one.text if one.role is Role.MARK else self._word(spoken, at, following)
            phonemes = self._in_vocab(phonemes)
            if phonemes:
                units.append(Unit(phonemes=phonemes, start=one.start, end=one.end, role=one.role))
                following = phonemes
        return units[::-1]

    def _in_vocab(self, phonemes: str) -> str:
        return "".join(c for c in phonemes.translate(AS_SPOKEN) if c in self._vocab)

    def _word(self, spoken: Sequence[Spoken], at: int, following: str) -> str:
        one = spoken[at]
        if one.role is Role.LETTERS:
            return self._lexicon.spell(one.text)
        before = spoken[at - 1] if at and spoken[at - 1].role is not Role.MARK else None
        weak = _weak_form(one.text, following)
        if weak is not None:
            return weak
        context = Context(
            pause=not following or following[0] in PAUSES,
            tag=_tag(before.text.lower() if before else ""),
            shouting=_shouting(spoken, at),
        )
        if one.text.lower() == "used" and at + 1 < len(spoken) and spoken[at + 1].text == "to":
            context = Context(tag="VBD")
        return self._lexicon.pronounce(one.text, context)


def _tidy(spoken: Sequence[Spoken]) -> list[Spoken]:
    """Runs of marks that end a sentence or a clause become the strongest one of them."""
    tidy: list[Spoken] = []
    for one in spoken:
        last = tidy[-1] if tidy else None
        if last and _is_pause(one) and _is_pause(last):
            strongest = max(last.text, one.text, key=";:,—.…!?".index)
            tidy[-1] = Spoken(role=Role.MARK, text=strongest, start=last.start, end=one.end)
        elif not (last and one.role is Role.MARK and one.text == last.text):
            tidy.append(one)
    return tidy


def _is_pause(one: Spoken) -> bool:
    return one.role is Role.MARK and one.text in PAUSES


def _weak_form(word: str, following: str) -> str | None:
    """The little words whose sound hangs on what comes next."""
    forms = WEAK.get(word) or (WEAK.get(word.lower()) if word.istitle() else None)
    if forms is None:
        return None
    if not following or following[0] in PAUSES:
        return forms[0]
    return forms[1 if following.lstrip("ˈˌ")[:1] in VOWELS else 2]


def _tag(before: str) -> str:
    if before in BEFORE_VERB:
        return "VERB"
    if before in BEFORE_NOUN:
        return "NOUN"
    return "VBN" if before in BEFORE_PARTICIPLE else ""


def _shouting(spoken: Sequence[Spoken], at: int) -> bool:
    """Whether the neighbours are in capitals, so that one word's capitals make no acronym of it."""
    near = [
        s.text for s in (*spoken[max(0, at - 2) : at], *spoken[at + 1 : at + 3]) if len(s.text) > 1
    ]
    return bool(near) and all(text.isupper() for text in near)
