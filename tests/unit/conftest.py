"""Builders of audio files, good and hostile."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
import soundfile


def _chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    declared = len(body) if size is None else size
    return name + struct.pack("<I", declared) + body + b"\0" * (len(body) % 2)


@pytest.fixture(scope="session")
def chunk() -> Callable[..., bytes]:
    return _chunk


@pytest.fixture(scope="session")
def fmt() -> Callable[..., bytes]:
    def build(*, tag=1, channels=1, rate=16_000, bits=16) -> bytes:
        align = channels * -(-bits // 8)
        packed = struct.pack(
            "<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits
        )
        return _chunk(b"fmt ", packed)

    return build


@pytest.fixture(scope="session")
def riff() -> Callable[..., bytes]:
    def build(*chunks: bytes, magic: bytes = b"RIFF", size: int | None = None) -> bytes:
        body = b"WAVE" + b"".join(chunks)
        return magic + struct.pack("<I", len(body) if size is None else size) + body

    return build


@pytest.fixture(scope="session")
def tone() -> Callable[..., np.ndarray]:
    """A 440 Hz tone at -12 dBFS."""

    def build(seconds=1.0, *, rate=16_000, channels=1) -> np.ndarray:
        mono = 0.25 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
        return np.repeat(mono[:, None], channels, axis=1).astype(np.float32)

    return build


@pytest.fixture(scope="session")
def encoded() -> Callable[..., bytes]:
    """Samples in any format and subtype that libsndfile writes."""

    def build(samples, format_="WAV", subtype=None, *, rate=16_000, **options) -> bytes:
        file = io.BytesIO()
        soundfile.write(file, samples, rate, format=format_, subtype=subtype, **options)
        return file.getvalue()

    return build


@pytest.fixture(scope="session")
def flac_total() -> Callable[[bytes, int], bytes]:
    """A FLAC file whose STREAMINFO claims another number of samples."""

    def build(data: bytes, total: int) -> bytes:
        packed = int.from_bytes(data[18:26], "big") >> 36 << 36 | total
        return data[:18] + packed.to_bytes(8, "big") + data[26:]

    return build


@pytest.fixture(scope="session")
def mp3_frames() -> Callable[[bytes, int], bytes]:
    """An MP3 file whose Xing header claims another number of frames."""

    def build(data: bytes, frames: int) -> bytes:
        at = data.index(b"Xing") + 8
        return data[:at] + struct.pack(">I", frames) + data[at + 4 :]

    return build


@pytest.fixture(scope="session")
def untagged() -> Callable[[bytes], bytes]:
    """An MP3 file without the Xing frame that its encoder put first."""

    def build(data: bytes) -> bytes:
        return data[data.index(data[:2], 4) :]

    return build
