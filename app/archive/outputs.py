"""Where results go, under which names, and how they get there: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.archive.items import Item
from app.archive.report import Entry
from app.clock import new_id
from app.jobs.formats import Format

FORMATS = {
    "txt": Format.TEXT,
    "srt": Format.SRT,
    "vtt": Format.VTT,
    "json": Format.VERBOSE_JSON,
    "tsv": Format.TSV,
}
TIMED = frozenset({"srt", "vtt", "tsv", "json"})
"""Their segments are the model's own where it can tell."""


class Layout(StrEnum):
    ADJACENT = "adjacent"
    MIRROR = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    out: Path | None
    layout: Layout

    def folder(self, item: Item) -> Path | None:
        """None: there is no place beside it, and no other was given."""
        if self.layout is Layout.ADJACENT:
            return item.home
        return (self.out or Path()) / item.name.parent


class Names:
    """Gives each item a stem that no other has, the same in every run.

    ``a.wav`` becomes ``a``; beside ``a.mp3`` both keep their suffix; what still collides is
    counted.
    """

    def __init__(self, target: Target, items: Iterable[Item], entries: dict[str, Entry]) -> None:
        self._target = target
        self._entries = entries
        todo = [item for item in items if item.problem is None]
        self._plain = Counter(_folded(stem) for item in todo if (stem := self._stem(item)))
        self._taken = {_folded(Path(entry.stem)): id_ for id_, entry in entries.items()}

    def stem(self, item: Item) -> Path | None:
        """The path of its outputs without the suffix; None when there is no place for them."""
        known = self._entries.get(item.id)
        plain = self._stem(item)
        if plain is None:
            return None
        if known and known.stem and Path(known.stem).parent == plain.parent:
            return Path(known.stem)
        for candidate in self._candidates(item, plain):
            if self._taken.setdefault(_folded(candidate), item.id) == item.id:
                return candidate
        return None

    def _stem(self, item: Item) -> Path | None:
        folder = self._target.folder(item)
        return folder / item.name.stem if folder is not None else None

    def _candidates(self, item: Item, plain: Path) -> Iterator[Path]:
        if self._plain[_folded(plain)] == 1:
            yield plain
        full = plain.with_name(item.name.name)
        yield full
        number = 2
        while True:
            yield full.with_name(f"{full.name}-{number}")
            number += 1


def _folded(path: Path) -> str:
    """File systems that do not tell A from a would have one file of two."""
    return str(path.absolute()).casefold()


def paths(stem: Path, suffixes: Iterable[str]) -> dict[str, Path]:
    """Of each format; only added to, since a name may have dots of its own."""
    return {suffix: stem.with_name(f"{stem.name}.{suffix}") for suffix in suffixes}


def shown(path: Path | PurePosixPath | str) -> str:
    """A name for people: what a terminal would obey, or cannot show, comes as an escape."""
    text = os.fspath(path).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def require_writable(stem: Path) -> None:
    """Raise OSError for a place that cannot be written to, before any work is done for it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=stem.parent):
        pass


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name once it is whole and on the disk."""
    part = path.with_name(f".{new_id('voxqueue')}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
