"""Recordings in a ZIP archive, read where they are: only a member's own bytes are ever unpacked."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.archive.items import (
    HEAD_BYTES,
    Item,
    Unreadable,
    failed,
    is_named_audio,
    look_at_head,
    refusal,
    skipped,
    spool,
)
from models.containers.geometry import Geometry

ENCRYPTED = 0x1  # of a member's flags
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, OSError, RuntimeError),
)


@dataclass(frozen=True, slots=True)
class ZipSource:
    archive: zipfile.ZipFile
    member: zipfile.ZipInfo
    max_bytes: int

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        try:
            with self.archive.open(self.member) as packed:
                file = spool(packed, max_bytes=self.max_bytes)
        except BROKEN as error:
            raise Unreadable(f"cannot be unpacked: {error}") from error
        with file:
            yield file

    def head(self) -> bytes:
        with self.archive.open(self.member) as packed:
            return packed.read(HEAD_BYTES)


def zip_items(path: Path, *, prefix: str, hidden: bool, max_bytes: int) -> Iterator[Item]:
    """Stays open for as long as its items are in use."""
    try:
        archive = zipfile.ZipFile(path)
    except BROKEN as error:
        yield failed(str(path), f"not a readable ZIP archive: {error}")
        return
    home = path.parent / path.stem
    for member in archive.infolist():
        if not member.filename.endswith("/"):  # is_dir() fails on a member without a name
            source = ZipSource(archive, member, max_bytes)
            yield _item(path, home, source, prefix=prefix, hidden=hidden)


def _item(path: Path, home: Path, source: ZipSource, *, prefix: str, hidden: bool) -> Item:
    member, name = source.member, source.member.filename
    id_ = f"{path}!{name}"
    regular = not stat.S_ISLNK(member.external_attr >> 16)
    bounds = {"size": member.file_size, "max_bytes": source.max_bytes}
    if refused := refusal(id_, name, hidden=hidden, regular=regular, **bounds):
        return refused
    if member.flag_bits & ENCRYPTED:
        return failed(id_, "encrypted", name)
    try:
        geometry: Geometry | None = look_at_head(source.head(), member.file_size)
    except BROKEN as error:
        return failed(id_, f"cannot be unpacked: {error}", name)
    if geometry is None and not is_named_audio(name):
        return skipped(id_, "not a recording", name)
    return Item(
        id=id_,
        name=PurePosixPath(prefix, name),
        home=home / PurePosixPath(name).parent,
        source=source,
        size=member.file_size,
        version=f"{member.CRC:08x}",
        seconds=geometry.duration_seconds if geometry else None,
    )
