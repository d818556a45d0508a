"""The ratios to the peers of the last accepted run, and whether another run is worse.

Times are neither kept nor compared: they say nothing about another machine or another day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

FILE = Path(__file__).with_name("baseline.json")
TOLERANCE = 0.2  # of a ratio: what two runs on the same quiet machine differ by at most


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A case as it was when its ratios were saved."""

    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    """Of all the packages that took part."""
    ratios: dict[str, float]
    """This project's time by that of the system named."""


Baseline = dict[str, Accepted]
_FORMAT = TypeAdapter(Baseline)


def read(file: Path) -> Baseline:
    """By case; empty where nothing was saved yet."""
    return _FORMAT.validate_json(file.read_bytes()) if file.exists() else {}


def save(cases: Baseline, file: Path) -> None:
    """The other cases stay as they are."""
    both = _FORMAT.dump_python({**read(file), **cases}, mode="json")
    file.write_text(json.dumps(both, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def worse(
    now: Mapping[str, float], accepted: Mapping[str, float], *, tolerance: float
) -> Iterator[str]:
    """In words, each ratio that has grown by more than the tolerance."""
    for name, ratio in now.items():
        before = accepted.get(name)
        if before is not None and ratio > before * (1 + tolerance):
            yield f"{ratio:.2f} of the time of {name}, which was {before:.2f}"
