"""FLAC headers: the structural walk over the metadata blocks that comes before any decoder.

Reads block headers and STREAMINFO by seeking, never the audio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from models.containers.geometry import Container, Geometry, Malformed

MAX_METADATA_BYTES = 262_144
STREAMINFO_BYTES = 34
MAX_SAMPLE_RATE = 655_350  # Hz, the largest that a frame header can code
TOTAL_SAMPLES = (1 << 36) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    sample_rate: int
    channels: int
    bits: int
    total_samples: int


def probe(file: BinaryIO, size: int) -> Geometry:
    try:
        info = walk(file, size)
    except Malformed as error:
        raise Malformed(f"flac container is malformed: {error}") from error
    return Geometry(
        container=Container.FLAC,
        sample_rate=info.sample_rate,
        channels=info.channels,
        frames=info.total_samples or None,
        bit_depth=info.bits,
    )


def walk(file: BinaryIO, size: int) -> StreamInfo:
    offset, info = 4, None
    while True:
        head = _read(file, offset, 4)
        if len(head) < 4:
            raise Malformed("metadata block chain runs past the end of the file")
        length = int.from_bytes(head[1:], "big")
        if info is None:
            info = _stream_info(file, offset + 4, kind=head[0] & 0x7F, length=length)
        offset += 4 + length
        if offset > size:
            raise Malformed("a metadata block extends past the end of the file")
        if head[0] & 0x80:
            return info
        if offset >= MAX_METADATA_BYTES:
            raise Malformed("metadata block chain does not terminate")


def endless_header(file: BinaryIO) -> bytes:
    """Magic and STREAMINFO with the total unknown, so that a decoder goes on to the real end."""
    head = _read(file, 0, 8 + STREAMINFO_BYTES)
    packed = int.from_bytes(head[18:26], "big") & ~TOTAL_SAMPLES
    return head[:18] + packed.to_bytes(8, "big") + head[26:]


def _stream_info(file: BinaryIO, body: int, *, kind: int, length: int) -> StreamInfo:
    if kind != 0 or length != STREAMINFO_BYTES:
        raise Malformed("first metadata block is not a 34-byte STREAMINFO")
    data = _read(file, body, STREAMINFO_BYTES)
    if len(data) < STREAMINFO_BYTES:
        raise Malformed("STREAMINFO is truncated")
    packed = int.from_bytes(data[10:18], "big")
    info = StreamInfo(
        sample_rate=packed >> 44,
        channels=(packed >> 41 & 0b111) + 1,
        bits=(packed >> 36 & 0b11111) + 1,
        total_samples=packed & TOTAL_SAMPLES,
    )
    if not 0 < info.sample_rate <= MAX_SAMPLE_RATE:
        raise Malformed("STREAMINFO declares an out-of-range sample rate")
    if not 4 <= info.bits <= 32:
        raise Malformed("STREAMINFO declares an out-of-range sample depth")
    return info


def _read(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
