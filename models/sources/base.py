"""What a source of checkpoints is given and gives back, and how it fails.

Owns the values and errors that models/pull.py and the sources share. It must not know any source.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from models.base import ModelError
from models.catalog import CatalogEntry
from models.checksums import WrongHash, check

POLL_SECONDS = 0.2
"""How often a download is looked at for the progress display."""


class PullError(ModelError):
    """The checkpoint was not installed; nothing is left half there."""


class SourceUnavailable(ModelError):
    """The source cannot give the checkpoint here and now; the next one may."""


Report = Callable[[int], None]
"""Told how many bytes are there so far."""


class Progress(Protocol):
    """Tells the user what happens."""

    def line(self, text: str) -> None: ...

    def track(self, name: str, total: int) -> AbstractContextManager[Report]:
        """Show the progress of one file of ``total`` bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One checkpoint to bring into an empty directory."""

    entry: CatalogEntry
    target: Path
    downloads: Path
    """Keeps finished downloads until the checkpoint is installed, over several pulls."""
    given: Path | None
    """A directory of the user's: it holds the checkpoint, or the files of its packages."""
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a checkpoint came from."""

    source: str
    revision: str = ""
    missing: tuple[str, ...] = ()
    """What this source could not give, in words."""


@contextmanager
def watched(folder: Path, report: Report) -> Iterator[None]:
    """Report how much folder has grown, while someone else's code writes into it."""
    done, before = threading.Event(), _size(folder)

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            report(_size(folder) - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _size(folder: Path) -> int:
    """Bytes in folder; a file that goes away meanwhile counts for nothing."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(directory, name)).st_size  # noqa: PTH116, PTH118 - in os.walk's terms
            except FileNotFoundError:
                continue
    return total


def require_space(folder: Path, needed: int) -> None:
    """Raise PullError unless the file system of folder has room for needed bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PullError(
            f"not enough space for {folder}: {megabytes(needed)} needed, {megabytes(free)} free"
        )


def megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


def check_download(path: Path, expected: str, *, name: str) -> None:
    """Raise WrongHash, and forget the download, unless it is the expected file."""
    try:
        check(path, expected, name=name)
    except WrongHash:
        path.unlink()  # or the next pull would find it and fail again
        raise


def link_or_copy(source: Path, target: Path) -> None:
    """Put source at target as well, without a second copy where the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
