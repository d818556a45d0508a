"""The strict RIFF/WAVE reader: PCM16 and float32, and nothing that a header only half says.

Reads what the front door's lenient reader (app.audio.wav) clamps as an error, because a model's
clip must be what its sender meant. Owns chunks and sample formats; bounds come from outside.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.base import Samples
from models.containers.packets import Positioned
from models.preprocess.cancellation import Poll
from models.preprocess.errors import CorruptClip, EmptyClip
from models.preprocess.source import SourceBounds, check_duration, check_rate

MAX_CHUNKS = 256
UNSIZED = 0xFFFF_FFFF  # the data size that a streaming writer leaves
BLOCK_FRAMES = 4_096
BLOCK_SAMPLES = 1 << 20  # of all channels, for files of thousands of them
FORMATS: dict[tuple[int, int], np.dtype[Any]] = {
    (1, 16): np.dtype("<i2"),
    (3, 32): np.dtype("<f4"),
}
PCM16_SCALE = np.float32(32_768)


@dataclass(frozen=True, slots=True, kw_only=True)
class WavClip:
    data: bytes
    start: int
    """Byte offset of the first frame."""
    sample_rate: int
    channels: int
    frames: int
    dtype: np.dtype[Any]

    def blocks(self, poll: Poll) -> Iterator[Positioned]:
        step = max(1, min(BLOCK_FRAMES, BLOCK_SAMPLES // self.channels))
        for first in range(0, self.frames, step):
            poll()
            count = min(step, self.frames - first) * self.channels
            offset = self.start + first * self.channels * self.dtype.itemsize
            raw = np.frombuffer(self.data, self.dtype, count, offset).reshape(-1, self.channels)
            block = raw.astype(np.float32)
            yield first, block / PCM16_SCALE if self.dtype.kind == "i" else block


def open_wav(data: bytes, *, clip: int, bounds: SourceBounds, poll: Poll) -> WavClip:
    poll()
    fmt, samples = _Chunks(data, clip, poll).find()
    tag, channels, rate = struct.unpack_from("<HHI", fmt)
    bits = int.from_bytes(fmt[14:16], "little")
    if channels == 0 or rate == 0:
        raise CorruptClip(clip, "WAV channel count and sample rate must be non-zero")
    check_rate(rate, clip, bounds)
    if (tag, bits) not in FORMATS:
        raise CorruptClip(clip, f"unsupported WAV format {tag}/{bits}-bit")
    if not samples:
        raise EmptyClip(clip)
    frames, rest = divmod(len(samples), channels * bits // 8)
    if rest:
        raise CorruptClip(clip, "WAV data is not aligned to complete sample frames")
    check_duration(frames, rate, bounds)
    return WavClip(
        data=data,
        start=samples.start,
        sample_rate=rate,
        channels=channels,
        frames=frames,
        dtype=FORMATS[tag, bits],
    )


def float_wav(samples: Samples, rate: int) -> bytes:
    """Mono samples as a WAV file that is read back to the bit."""
    data = samples.astype("<f4").tobytes()
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32)
    head = b"RIFF" + struct.pack("<I", 4 + len(fmt) + 8 + len(data)) + b"WAVE"
    return head + fmt + struct.pack("<4sI", b"data", len(data)) + data


class _Chunks:
    def __init__(self, data: bytes, clip: int, poll: Poll) -> None:
        self._data, self._clip, self._poll = data, clip, poll

    def find(self) -> tuple[bytes, range]:
        """The bytes of the fmt chunk, and where those of the data chunk lie."""
        if len(self._data) < 12 or self._data[:4] != b"RIFF" or self._data[8:12] != b"WAVE":
            raise self._corrupt("missing RIFF/WAVE header")
        fmt: bytes | None = None
        samples: range | None = None
        offset = 12
        for _ in range(MAX_CHUNKS):
            complete = fmt is not None and samples is not None
            # A missing last pad byte matters only while something is still sought.
            if offset == len(self._data) or (complete and offset > len(self._data)):
                break
            name, body = self._chunk(offset)
            if name == b"fmt ":
                fmt = self._fmt(body)
            elif name == b"data":
                samples = body
                if fmt is not None:
                    break
            self._poll()
            offset = body.stop + len(body) % 2
        if fmt is None:
            raise self._corrupt("missing WAV fmt chunk")
        if samples is None:
            raise self._corrupt("missing WAV data chunk")
        return fmt, samples

    def _chunk(self, offset: int) -> tuple[bytes, range]:
        size = len(self._data)
        if offset + 8 > size:
            raise self._corrupt("truncated WAV chunk header")
        name, declared = struct.unpack_from("<4sI", self._data, offset)
        start = offset + 8
        stop = size if name == b"data" and declared == UNSIZED else start + declared
        if stop > size:
            raise self._corrupt("declared WAV chunk exceeds payload")
        return name, range(start, stop)

    def _fmt(self, body: range) -> bytes:
        if len(body) < 16:
            raise self._corrupt("WAV fmt chunk is shorter than 16 bytes")
        return self._data[body.start : body.start + 16]

    def _corrupt(self, reason: str) -> CorruptClip:
        return CorruptClip(self._clip, reason)
