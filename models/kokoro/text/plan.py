"""Cuts a text into utterances that the network can say whole, without losing any of it.

Boundaries are taken where they hurt least: between sentences, else clauses, else words. Each
utterance keeps the part of the source it came from; together they are all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from models.base import Utterance
from models.kokoro.text.g2p import OPENING, Unit
from models.kokoro.text.spoken import Role

LIMIT = 510
"""Phonemes: the network's 512 positions less the pad at either end."""
COMFORT = 250
"""Phonemes up to which short sentences share an utterance; beyond, the network hurries."""

Group = list[Unit]


def plan(text: str, units: Sequence[Unit]) -> list[Utterance]:
    if not any(unit.is_word and unit.role is not Role.UNREADABLE for unit in units):
        return []
    groups = _merge_silent(_fit(list(units)))
    starts = [0, *(group[0].start for group in groups[1:]), len(text)]
    return [
        Utterance(text=text[starts[n] : starts[n + 1]].strip(), phonemes=phonemes(group))
        for n, group in enumerate(groups)
    ]


def phonemes(units: Iterable[Unit]) -> str:
    """Words a space apart; a mark stands close to the word it belongs to."""
    joined = ""
    for unit in units:
        close = (
            not joined
            or joined[-1] in OPENING
            or (not unit.is_word and unit.phonemes not in OPENING)
        )
        joined += unit.phonemes if close else f" {unit.phonemes}"
    return joined


def _fit(units: Group) -> list[Group]:
    """Sentences together up to COMFORT; a longer one by clauses, a longer clause by words."""
    sentences = _cut(units, lambda unit: unit.ends_sentence)
    return _pack(
        sentences, lambda sentence: _pack(_cut(sentence, lambda unit: unit.ends_clause), _by_words)
    )


def _by_words(clause: Group) -> list[Group]:
    if _size(clause) <= LIMIT:
        return [clause]
    return _pack([[unit] for unit in clause], lambda single: [single])


def _pack(parts: Sequence[Group], split: Callable[[Group], list[Group]]) -> list[Group]:
    """Neighbouring parts joined while they fit; a part that alone does not fit is split."""
    packed: list[Group] = []
    room = 0
    for part in parts:
        size = _size(part)
        if size > COMFORT:
            packed.extend(split(part))
            room = 0
        elif size + 1 <= room:
            packed[-1].extend(part)
            room -= size + 1
        else:
            packed.append(list(part))
            room = COMFORT - size
    return packed


def _size(units: Group) -> int:
    """Phonemes, with at most one space for each unit."""
    return sum(len(unit.phonemes) + 1 for unit in units) - 1


def _cut(units: Group, ends: Callable[[Unit], bool]) -> list[Group]:
    """Parts, each up to the mark that ends it and the closing marks behind that."""
    parts: list[Group] = []
    ended = True
    for unit in units:
        closing = not unit.is_word and unit.phonemes not in OPENING
        if ended and not (closing and parts):
            parts.append([])
            ended = False
        parts[-1].append(unit)
        ended = ended or ends(unit)
    return parts


def _merge_silent(groups: list[Group]) -> list[Group]:
    """A part without a word is said with the part before it, or the first with the next."""
    merged: list[Group] = []
    for group in groups:
        silent = not any(unit.is_word for unit in group)
        fits = bool(merged) and _size(merged[-1]) + 1 + _size(group) <= LIMIT
        if merged and fits and (silent or not any(unit.is_word for unit in merged[-1])):
            merged[-1].extend(group)
        else:
            merged.append(group)
    return merged
