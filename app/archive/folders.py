"""Recordings in the file system: single files, folders and patterns. Content decides, not names."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.archive.items import Item, failed, is_named_audio, look, skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What of a folder is taken."""

    recursive: bool = True
    pattern: str | None = None
    """Of file names; others are not mentioned."""
    hidden: bool = False
    ignored: frozenset[str] = frozenset()
    """Files of earlier runs, which are no recordings: not mentioned."""


@dataclass(frozen=True, slots=True)
class LocalSource:
    path: Path

    def open(self) -> AbstractContextManager[BinaryIO]:
        return self.path.open("rb")


def file_item(path: Path, name: PurePosixPath | None = None, *, named: bool = True) -> Item:
    """``named``: somebody asked for this very file, so that it is one even if it is no audio."""
    id_ = str(path)
    place = name or PurePosixPath(path.name)
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return skipped(id_, "not a regular file", place.as_posix())
        with path.open("rb") as file:
            geometry = look(file, facts.st_size)
    except OSError as error:
        return failed(id_, _told(error), place.as_posix())
    if geometry is None and not named and not is_named_audio(path.name):
        return skipped(id_, "not a recording", place.as_posix())
    return Item(
        id=id_,
        name=place,
        home=path.parent,
        source=LocalSource(path),
        size=facts.st_size,
        version=str(facts.st_mtime_ns),
        seconds=geometry.duration_seconds if geometry else None,
    )


def folder_items(root: Path, rules: Rules, prefix: str = "") -> Iterator[Item]:
    """Every entry below the folder, in the order of names."""
    for path in _walk(root, rules):
        if isinstance(path, Item):
            yield path
        else:
            place = PurePosixPath(prefix, path.relative_to(root).as_posix())
            yield file_item(path, place, named=False)


def _walk(folder: Path, rules: Rules) -> Iterator[Path | Item]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        yield failed(str(folder), f"cannot be listed: {error.strerror}")
        return
    for entry in entries:
        path = Path(entry.path)
        if str(path.absolute()) in rules.ignored:
            continue
        if entry.name.startswith(".") and not rules.hidden:
            yield skipped(entry.path, "hidden")
        elif entry.is_dir(follow_symlinks=False):
            if rules.recursive:
                yield from _walk(path, rules)
        elif entry.is_symlink() and path.is_dir():
            yield skipped(entry.path, "a link to a folder, which may lead in a circle")
        elif rules.pattern is None or fnmatch(entry.name, rules.pattern):
            yield path


def pattern_items(pattern: str, rules: Rules) -> Iterator[Item]:
    """What a pattern such as ``talks/**/*.wav`` matches, placed below its fixed part."""
    base = Path(*_fixed(Path(pattern)))
    matches = sorted(glob.glob(pattern, recursive=True, include_hidden=rules.hidden))  # noqa: PTH207 - takes absolute patterns too
    paths = [path for path in map(Path, matches) if not path.is_dir()]
    if not paths:
        yield failed(pattern, "nothing matches")
    for path in paths:
        if str(path.absolute()) not in rules.ignored:
            yield file_item(path, PurePosixPath(path.relative_to(base)), named=False)


def _fixed(pattern: Path) -> list[str]:
    """The folders before the first one with a wildcard."""
    parts: list[str] = []
    for part in pattern.parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return parts


def _told(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
