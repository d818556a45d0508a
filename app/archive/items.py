"""An item: one thing that a run has to account for, and where its bytes come from.

Knows no server and no output. What cannot be done is an item too, with the problem in it, so that
nothing that was named goes unmentioned.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

from app.audio.sniff import probe
from app.errors import BadAudio
from models.containers.geometry import Geometry

S3 = "s3://"
HEAD_BYTES = 1 << 16  # enough for a header, whatever the length of the recording
SPOOL_BYTES = 8 << 20  # of an unpacked recording kept in memory before it goes to a temporary file
CHUNK = 1 << 18  # bytes copied at a time
AUDIO_SUFFIXES = frozenset(
    {".wav", ".wave", ".mp3", ".flac", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".webm"}
    | {".aac", ".aif", ".aiff", ".wma", ".amr"}
)


class Status(StrEnum):
    SUBMITTED = "submitted"
    DONE = "done"
    REUSED = "reused"
    """Done, from a result that the service had already."""
    EXISTS = "exists"
    """Its outputs are there, and not known to be of this run: they are left alone."""
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    status: Status
    reason: str


class Source(Protocol):
    def open(self) -> AbstractContextManager[BinaryIO]:
        """The whole recording, seekable. Raises OSError or Unreadable."""
        ...


class Unreadable(Exception):
    """The recording cannot be had from where it lies: the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    id: str
    """What the report calls it."""
    name: PurePosixPath
    """Where it lies below what was named, and so where its outputs go below the target."""
    home: Path | None = None
    """Of its outputs when they are to lie beside it; None when there is no such place."""
    source: Source | None = None
    size: int = 0
    """Bytes."""
    version: str = ""
    """Changes when the bytes do: a time, a checksum."""
    seconds: float | None = None
    """As the header declares it."""
    options: dict[str, str] = field(default_factory=dict)
    """Form fields of its own, beside those of the run."""
    problem: Problem | None = None


def failed(id_: str, reason: str, name: str = "") -> Item:
    return _problem(id_, Status.FAILED, reason, name)


def skipped(id_: str, reason: str, name: str = "") -> Item:
    return _problem(id_, Status.SKIPPED, reason, name)


def _problem(id_: str, status: Status, reason: str, name: str) -> Item:
    place = PurePosixPath(name or "-")
    return Item(id=id_, name=place, problem=Problem(status=status, reason=reason))


def mark(item: Item, fields: dict[str, str]) -> str:
    """Of what is done with which bytes: another mark is other work."""
    parts = [item.size, item.version, {**fields, **item.options}]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def look(file: BinaryIO, size: int) -> Geometry | None:
    """What the header says; None when it is that of no recording. ``file`` may be a head only."""
    try:
        return probe(file, size)
    except BadAudio:
        return None


def look_at_head(head: bytes, size: int) -> Geometry | None:
    return look(io.BytesIO(head), size)


def is_named_audio(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in AUDIO_SUFFIXES


def refusal(
    id_: str, name: str, *, hidden: bool, regular: bool = True, size: int = 0, max_bytes: int = 0
) -> Item | None:
    """Why a member of an archive, or an object, is not looked at; None when it is."""
    if leads_out(name):
        return failed(id_, "its name leads out of the target")
    if is_hidden(name) and not hidden:
        return skipped(id_, "hidden", name)
    if not regular:
        return skipped(id_, "a link or a device", name)
    if max_bytes and size > max_bytes:
        return failed(id_, f"it unpacks to more than {max_bytes} bytes", name)
    return None


def leads_out(name: str) -> bool:
    """Whether a name from an archive or a manifest would write elsewhere than below the target."""
    place = PurePosixPath(name.replace("\\", "/"))
    drive = len(name) > 1 and name[1] == ":"
    return place.is_absolute() or drive or ".." in place.parts or "\0" in name or not place.parts


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


class Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...


def spool(file: Readable, *, max_bytes: int) -> BinaryIO:
    """A seekable copy, in memory while it is small. Raises Unreadable for one that never ends."""
    memory = io.BytesIO(file.read(min(SPOOL_BYTES, max_bytes + 1)))
    size = memory.seek(0, io.SEEK_END)
    if size < SPOOL_BYTES and size <= max_bytes:
        memory.seek(0)
        return memory
    with ExitStack() as undone:
        copy = cast("BinaryIO", undone.enter_context(tempfile.TemporaryFile()))
        copy.write(memory.getbuffer())
        while size <= max_bytes and (data := file.read(CHUNK)):
            size += copy.write(data)
        if size > max_bytes:
            raise Unreadable(f"it unpacks to more than {max_bytes} bytes")
        copy.seek(0)
        undone.pop_all()  # the caller closes it
    return copy
