"""How large, fast, wide and long an upload may be, and the messages for one that is not.

Reads what the header declares; the decoder holds what it really produces to the same `Limits`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO

from app.audio.sniff import probe
from app.errors import BadAudio
from models.containers import mp3
from models.containers.geometry import Geometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_bytes: int = 26_214_400
    max_sample_rate: int = 192_000
    """Hz."""
    max_channels: int = 8
    max_seconds: int = 600
    mp3_prefix_bytes: int = mp3.PREFIX_BYTES
    """How far into an MP3 its first frame may begin; cover art comes before it."""


def inspect(file: BinaryIO, limits: Limits) -> Geometry:
    """Bytes, then structure, then what the header declares."""
    size = file.seek(0, io.SEEK_END)
    check_size(size, limits)
    geometry = probe(file, size, mp3_prefix_bytes=limits.mp3_prefix_bytes)
    check(geometry, size, limits)
    return geometry


def check_size(size: int, limits: Limits) -> None:
    if size > limits.max_bytes:
        raise BadAudio(f"audio upload is {size} bytes, maximum is {limits.max_bytes} bytes")


def check(geometry: Geometry, size: int, limits: Limits) -> None:
    check_size(size, limits)
    rate, channels = geometry.sample_rate, geometry.channels
    if rate > limits.max_sample_rate:
        raise BadAudio(
            f"audio sample rate {rate} Hz exceeds the maximum of {limits.max_sample_rate} Hz"
        )
    if channels > limits.max_channels:
        raise BadAudio(f"audio has {channels} channels, maximum is {limits.max_channels}")
    seconds = geometry.duration_seconds
    if seconds is not None and seconds > limits.max_seconds:
        raise BadAudio(
            f"audio is {seconds:.1f} seconds long, maximum is {limits.max_seconds} seconds"
        )
