"""Clips and bounds for the waveform boundary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.preprocess.batch import prepare
from models.preprocess.errors import WaveformError
from models.preprocess.policy import PINNED, Family
from models.preprocess.source import EncodedClip, SourceKind


@pytest.fixture(scope="session")
def phi():
    return PINNED[Family.PHI4MM]


@pytest.fixture(scope="session")
def gemma():
    return PINNED[Family.GEMMA3N]


@pytest.fixture(scope="session")
def narrowed(gemma):
    """Gemma's policy with some numbers changed."""

    def build(**changes):
        return replace(gemma, **changes)

    return build


@pytest.fixture(scope="session")
def wav(riff, fmt, chunk):
    """A canonical WAV file of int16 or float32 samples, shape (frames,) or (frames, channels)."""

    def build(samples, *, rate=16_000) -> bytes:
        samples = np.asarray(samples)
        channels = samples.shape[1] if samples.ndim == 2 else 1
        tag, bits = (1, 16) if samples.dtype.kind == "i" else (3, 32)
        data = samples.astype("<i2" if tag == 1 else "<f4").tobytes()
        head = fmt(tag=tag, channels=channels, rate=rate, bits=bits)
        return riff(head, chunk(b"data", data))

    return build


@pytest.fixture(scope="session")
def silence(wav):
    def build(frames, *, rate=16_000, channels=1) -> bytes:
        return wav(np.zeros((frames, channels), np.int16), rate=rate)

    return build


@pytest.fixture(scope="session")
def clips():
    """Encoded clips with ordinals that count from one."""

    def build(*files: bytes, kind=SourceKind.SERVER_INLINE):
        return tuple(
            EncodedClip(data=data, kind=kind, placeholder_ordinal=number)
            for number, data in enumerate(files, start=1)
        )

    return build


class Countdown:
    """A flag that says stop when it is asked for the n-th time."""

    def __init__(self, left: int | None = None) -> None:
        self.left = left
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.left is not None and self.asked > self.left


@pytest.fixture
def countdown():
    return Countdown


@pytest.fixture(scope="session")
def prepared(clips, gemma):
    """The batch of some files, by Gemma's policy unless another is given."""

    def build(*files: bytes, policy=gemma):
        return prepare(clips(*files), policy)

    return build


@pytest.fixture(scope="session")
def refused(clips, gemma):
    """The text with which some files are refused."""

    def build(*files: bytes, policy=gemma) -> str:
        with pytest.raises(WaveformError) as caught:
            prepare(clips(*files), policy)
        return str(caught.value)

    return build
