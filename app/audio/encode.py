"""Float samples to 16-bit PCM WAV: a 44-byte header with true sizes, then the samples.

Written in blocks, so that a book's worth of speech needs no memory; the sizes are filled in at the
end. Rounds half away from zero, clamps, and turns NaN into silence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 44
MAX_DATA_BYTES = 0xFFFF_FFFF - (HEADER_BYTES - 8)  # the RIFF size counts the header from byte 8


def pcm16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    # Double precision: 0.5 added in float32 would round on its own.
    scaled = np.nan_to_num(
        samples.astype(np.float64) * 32_768, nan=0.0, posinf=32_767, neginf=-32_768
    )
    rounded = np.trunc(scaled + np.copysign(0.5, scaled))
    return np.clip(rounded, -32_768, 32_767).astype("<i2")


def wav_header(*, sample_rate: int, channels: int, data_bytes: int) -> bytes:
    align = 2 * channels
    riff = struct.pack("<4sI4s", b"RIFF", HEADER_BYTES - 8 + data_bytes, b"WAVE")
    fmt = struct.pack(
        "<4sIHHIIHH", b"fmt ", 16, 1, channels, sample_rate, sample_rate * align, align, 16
    )
    return riff + fmt + struct.pack("<4sI", b"data", data_bytes)


class WavWriter:
    """Writes blocks to a seekable file from its present position; `close` makes the sizes true.

    A block is interleaved, or of shape (frames, channels). What a 32-bit RIFF cannot declare, and
    an unfinished last frame, are cut.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        sample_rate: int,
        channels: int = 1,
        max_data_bytes: int = MAX_DATA_BYTES,
    ) -> None:
        self._file, self._start = file, file.tell()
        self._rate, self._align = sample_rate, 2 * channels
        self._left = max_data_bytes - max_data_bytes % self._align
        self._written = 0
        file.write(wav_header(sample_rate=sample_rate, channels=channels, data_bytes=0))

    @property
    def frames(self) -> int:
        """Whole sample frames written so far."""
        return self._written // self._align

    def write(self, block: NDArray[np.floating]) -> None:
        self.write_pcm(pcm16(block).tobytes())

    def write_pcm(self, data: bytes) -> None:
        """Samples that are 16-bit already."""
        data = data[: self._left]
        self._file.write(data)
        self._written += len(data)
        self._left -= len(data)

    def close(self) -> None:
        """Finish the file, which stays open, positioned at its end."""
        data_bytes = self.frames * self._align
        header = wav_header(
            sample_rate=self._rate, channels=self._align // 2, data_bytes=data_bytes
        )
        self._file.seek(self._start)
        self._file.write(header)
        self._file.seek(self._start + HEADER_BYTES + data_bytes)
        self._file.truncate()


def write_wav(
    file: BinaryIO,
    blocks: Iterable[NDArray[np.floating]],
    *,
    sample_rate: int,
    channels: int = 1,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> int:
    """Write all blocks and return the sample frames written."""
    writer = WavWriter(
        file, sample_rate=sample_rate, channels=channels, max_data_bytes=max_data_bytes
    )
    for block in blocks:
        writer.write(block)
    writer.close()
    return writer.frames
