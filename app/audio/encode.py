"""Float samples to 16-bit PCM WAV: a 44-byte header with true sizes, then the samples.

Written in blocks, so that a book's worth of speech needs no memory; the sizes are filled in at the
end. Rounds half away from zero, clamps, and turns NaN into silence.
"""

from __future__ import annotations

import io
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


def wav_header(*, rate: int, channels: int, data_bytes: int) -> bytes:
    align = 2 * channels
    riff = struct.pack("<4sI4s", b"RIFF", HEADER_BYTES - 8 + data_bytes, b"WAVE")
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * align, align, 16)
    return riff + fmt + struct.pack("<4sI", b"data", data_bytes)


def write_wav(
    file: BinaryIO,
    blocks: Iterable[NDArray[np.floating]],
    *,
    rate: int,
    channels: int = 1,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> int:
    """Write blocks to a seekable file and return the sample frames written.

    A block is interleaved, or of shape (frames, channels). What a 32-bit RIFF cannot declare, and
    an unfinished last frame, are cut.
    """
    start = file.tell()
    file.write(wav_header(rate=rate, channels=channels, data_bytes=0))
    written = 0
    for block in blocks:
        data = pcm16(block).tobytes()[: max_data_bytes - written]
        file.write(data)
        written += len(data)
        if written >= max_data_bytes:
            break
    frames = written // (2 * channels)
    end = start + HEADER_BYTES + frames * 2 * channels
    file.truncate(end)
    file.seek(start)
    file.write(wav_header(rate=rate, channels=channels, data_bytes=end - start - HEADER_BYTES))
    file.seek(end)
    return frames


def wav_bytes(
    samples: NDArray[np.floating],
    *,
    rate: int,
    channels: int = 1,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> bytes:
    file = io.BytesIO()
    write_wav(file, [samples], rate=rate, channels=channels, max_data_bytes=max_data_bytes)
    return file.getvalue()
