"""Recordings in a TAR archive, plain or compressed, read in one pass from front to back.

A first pass lists the members, a second hands out their bytes; a compressed archive has no other
way. Only the member in hand is ever unpacked.
"""

from __future__ import annotations

import lzma
import tarfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import zstandard

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

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BROKEN = (
    *(tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError),
    *(EOFError, OSError),
    TypeError,  # what tarfile makes of a gzip header that is cut short
)


class TarReader:
    """Hands out members by number; going back means starting over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._members: Iterator[tarfile.TarInfo] | None = None
        self._archive: tarfile.TarFile | None = None
        self._opened = ExitStack()
        self._next = 0

    @contextmanager
    def member(self, number: int, *, max_bytes: int) -> Iterator[BinaryIO]:
        with self._lock:
            try:
                file = self._unpacked(number, max_bytes)
            except BROKEN as error:
                self._restart()
                raise Unreadable(f"cannot be unpacked: {error}") from error
        with file:
            yield file

    def _unpacked(self, number: int, max_bytes: int) -> BinaryIO:
        if self._members is None or number < self._next:
            self._restart()
            self._archive = self._opened.enter_context(open_tar(self._path))
            self._members = iter(self._archive)
        for member in self._members or ():
            self._next += 1
            if self._next - 1 == number:
                packed = cast("tarfile.TarFile", self._archive).extractfile(member)
                if packed is None:
                    break
                return spool(packed, max_bytes=max_bytes)
        raise Unreadable("the archive has changed since it was listed")

    def _restart(self) -> None:
        self._opened.close()
        self._members, self._next = None, 0


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """As a stream, so that nothing is ever sought for."""
    with path.open("rb") as file:
        is_zstd = file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
        file.seek(0)
        if is_zstd:
            with (
                zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as plain,
                tarfile.open(fileobj=cast("BinaryIO", plain), mode="r|") as archive,
            ):
                yield archive
        else:
            with tarfile.open(fileobj=file, mode="r|*") as archive:
                yield archive


@dataclass(frozen=True, slots=True)
class TarSource:
    reader: TarReader
    number: int
    max_bytes: int

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with self.reader.member(self.number, max_bytes=self.max_bytes) as file:
            yield file


def tar_items(path: Path, *, prefix: str, hidden: bool, max_bytes: int) -> Iterator[Item]:
    reader, count = TarReader(path), 0
    try:
        with open_tar(path) as archive:
            for count, member in enumerate(archive, 1):
                if not member.isdir():
                    source = TarSource(reader, count - 1, max_bytes)
                    yield _item(path, archive, member, source, prefix=prefix, hidden=hidden)
    except BROKEN as error:
        yield failed(str(path), f"the archive is damaged after {count} members: {error}")


def _item(
    path: Path,
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    source: TarSource,
    *,
    prefix: str,
    hidden: bool,
) -> Item:
    name = member.name.removeprefix("./")
    id_ = f"{path}!{name}"
    bounds = {"size": member.size, "max_bytes": source.max_bytes}
    if refused := refusal(id_, name, hidden=hidden, regular=member.isreg(), **bounds):
        return refused
    packed = archive.extractfile(member)
    geometry = look_at_head(packed.read(HEAD_BYTES) if packed else b"", member.size)
    if geometry is None and not is_named_audio(name):
        return skipped(id_, "not a recording", name)
    return Item(
        id=id_,
        name=PurePosixPath(prefix, name),
        home=path.parent / archive_stem(path) / PurePosixPath(name).parent,
        source=source,
        size=member.size,
        version=str(member.mtime),
        seconds=geometry.duration_seconds if geometry else None,
    )


def archive_stem(path: Path) -> str:
    """``talks`` of ``talks.tar.gz``."""
    return path.name.partition(".tar")[0] if ".tar" in path.name else path.stem
