"""RIFF/WAVE and RF64 headers: a lenient chunk walk, and a clean header for what was found.

Sizes that a header gets wrong are clamped to the bytes present. Owns chunks only: sample formats
are the decoder's business.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from models.containers.geometry import Container, Geometry, Malformed

MAX_CHUNKS = 4096  # walked at most, so that a file of empty chunks costs milliseconds
MAX_FMT_BYTES = 1024  # the longest fmt chunk in use (MS ADPCM) has 50
UNSIZED = 0xFFFFFFFF  # a data size that a streaming writer left open, or that RF64 keeps in ds64


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the samples lie and the chunk that says what they are."""

    fmt: bytes
    data_start: int
    data_bytes: int

    @property
    def format_tag(self) -> int:
        return int.from_bytes(self.fmt[0:2], "little")

    @property
    def channels(self) -> int:
        return int.from_bytes(self.fmt[2:4], "little")

    @property
    def sample_rate(self) -> int:
        return int.from_bytes(self.fmt[4:8], "little")

    @property
    def bits(self) -> int:
        return int.from_bytes(self.fmt[14:16], "little")


def probe(file: BinaryIO, size: int) -> Geometry:
    found = layout(file, size)
    if 0 in (found.sample_rate, found.channels, found.bits):
        raise Malformed("degenerate fmt chunk")
    frame_bytes = found.channels * -(-found.bits // 8)
    return Geometry(
        container=Container.WAV,
        sample_rate=found.sample_rate,
        channels=found.channels,
        frames=found.data_bytes // frame_bytes,
        bit_depth=found.bits,
    )


def layout(file: BinaryIO, size: int) -> Layout:
    """Walk to the data chunk; a data chunk before any fmt chunk is refused."""
    magic = _read(file, 0, 12)
    if len(magic) < 12 or magic[:4] not in (b"RIFF", b"RF64") or magic[8:] != b"WAVE":
        raise Malformed("not a RIFF/WAVE file")
    fmt, long_size, offset = b"", None, 12
    for _ in range(MAX_CHUNKS):
        name, declared = _chunk(file, offset, size)
        body = offset + 8
        if name in (b"", b"data"):
            break
        if name == b"fmt ":
            fmt = _fmt(file, body, min(declared, size - body))
        elif name == b"ds64" and magic[:4] == b"RF64":
            long_size = int.from_bytes(_read(file, body + 8, 8), "little")
        offset = body + declared + declared % 2
    else:
        name = b""
    if not fmt:
        raise Malformed("missing fmt chunk")
    if name != b"data":
        raise Malformed("missing data chunk")
    if declared == UNSIZED and long_size:
        declared = long_size
    if declared == 0 and not _walks_to_end(file, body, size):
        declared = size - body  # a streaming writer that never came back to fill it in
    return Layout(fmt=fmt, data_start=body, data_bytes=min(declared, size - body))


def header(found: Layout) -> bytes:
    """The shortest true header for these samples: RIFF, or RF64 where 32 bits are too few."""
    fmt = b"fmt " + struct.pack("<I", len(found.fmt)) + found.fmt + b"\0" * (len(found.fmt) % 2)
    riff_bytes = 4 + len(fmt) + 8 + found.data_bytes
    if riff_bytes < UNSIZED:
        data = b"data" + struct.pack("<I", found.data_bytes)
        return b"RIFF" + struct.pack("<I", riff_bytes) + b"WAVE" + fmt + data
    ds64 = struct.pack("<4sIQQQI", b"ds64", 28, riff_bytes + 36, found.data_bytes, 0, 0)
    riff = b"RF64" + struct.pack("<I", UNSIZED) + b"WAVE"
    return riff + ds64 + fmt + b"data" + struct.pack("<I", UNSIZED)


def _fmt(file: BinaryIO, body: int, present: int) -> bytes:
    fmt = _read(file, body, min(present, MAX_FMT_BYTES))
    if len(fmt) < 16:
        raise Malformed("truncated fmt chunk")
    return fmt


def _walks_to_end(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether whole chunks follow an empty data chunk to the end, so that it is truly empty."""
    for _ in range(MAX_CHUNKS):
        if offset == size:
            return True
        name, declared = _chunk(file, offset, size)
        if not name or not all(32 <= byte < 127 for byte in name):
            return False
        offset += 8 + declared + declared % 2
        if offset == size + 1:  # the last pad byte may be missing
            return True
    return False


def _chunk(file: BinaryIO, offset: int, size: int) -> tuple[bytes, int]:
    """Name and declared size; an empty name where fewer than 8 bytes are left."""
    head = _read(file, offset, 8) if offset + 8 <= size else b""
    return (head[:4], int.from_bytes(head[4:], "little")) if len(head) == 8 else (b"", 0)


def _read(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
