"""Section 4.4: frames and tokens from lengths."""

from __future__ import annotations

from math import ceil

import pytest

from models.preprocess.frames import (
    gemma3n_frames,
    gemma3n_tokens,
    phi4mm_frames,
    phi4mm_tokens,
)


@pytest.mark.parametrize(
    ("samples", "rate", "frames"),
    [
        (0, 16_000, 0),
        (399, 16_000, 0),
        (400, 16_000, 1),
        (559, 16_000, 1),
        (560, 16_000, 2),
        (28_800_000, 16_000, 179_998),
        (199, 8_000, 0),
        (200, 8_000, 1),
        (280, 8_000, 2),
        (14_400_000, 8_000, 179_998),
    ],
)
def test_4_4_phi4mm_frames(samples, rate, frames):
    assert phi4mm_frames(samples, rate) == frames


@pytest.mark.parametrize(("frames", "tokens"), [(0, 0), (1, 1), (8, 1), (9, 2), (179_998, 22_500)])
def test_4_4_phi4mm_tokens(frames, tokens):
    assert phi4mm_tokens(frames) == tokens


@pytest.mark.parametrize(
    ("samples", "frames"),
    [(0, 0), (1, 0), (512, 0), (513, 1), (1_600, 8), (16_000, 97), (480_000, 2_997)],
)
def test_4_4_gemma3n_frames(samples, frames):
    assert gemma3n_frames(samples, 16_000) == frames


def test_4_4_gemma3n_tokens_are_what_thirty_seconds_make():
    strided = ceil(ceil(ceil(2_997 / 2) / 2) / 4)
    assert gemma3n_tokens(1) == gemma3n_tokens(2_997) == strided == 188
