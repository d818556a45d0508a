"""Gemma 3n's features: natural-log Mel magnitudes of a left-padded batch at 16 kHz.

Takes normalised clips. Padding stands before a clip, and a frame counts if it begins inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.base import Samples
from models.preprocess.cancellation import Cancelled, never
from models.preprocess.features.errors import FeatureCancelled, FeatureError
from models.preprocess.frames import GEMMA3N_PAD, gemma3n_frames

MELS = 128
MAX_SAMPLES = 480_000  # 30 s; the rest is cut
UNFOLD = 513  # samples of a frame before pre-emphasis takes one
HOP = 160
FFT = 1_024
MIN_HZ, MAX_HZ = 125.0, 7_600.0
PREEMPHASIS = 0.97
FLOOR = 1e-5
FRAMES_A_POLL = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    values: NDArray[np.float32]
    """Shape (clips, frames, 128)."""
    valid: NDArray[np.bool_]
    """Shape (clips, frames)."""


def features(clips: Sequence[Samples], cancelled: Cancelled = never) -> Features:
    _poll(cancelled)
    for index, clip in enumerate(clips):
        _poll(cancelled)
        _check(index + 1, clip)
    longest = max((min(len(clip), MAX_SAMPLES) for clip in clips), default=0)
    padded = GEMMA3N_PAD * -(-longest // GEMMA3N_PAD)
    count = gemma3n_frames(longest, 16_000)
    values = np.empty((len(clips), count, MELS), np.float32)
    valid = np.empty((len(clips), count), np.bool_)
    for index, clip in enumerate(clips):
        _poll(cancelled)
        cut = clip[:MAX_SAMPLES]
        silence = padded - len(cut)
        values[index] = _of_clip(np.pad(cut, (silence, 0)), count, cancelled)
        valid[index] = np.arange(count) * HOP >= silence
    _poll(cancelled)
    return Features(values=values, valid=valid)


@cache
def mel_filters() -> NDArray[np.float64]:
    """Shape (513, 128): triangles between equal steps on the HTK scale."""
    edges = _hertz(np.linspace(_mel(MIN_HZ), _mel(MAX_HZ), MELS + 2))
    hertz = np.arange(FFT // 2 + 1)[:, None] * (16_000 / FFT)
    rising = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    return filters


def _of_clip(padded: Samples, count: int, cancelled: Cancelled) -> NDArray[np.float32]:
    out = np.empty((count, MELS), np.float32)
    if not count:
        return out
    frames = np.lib.stride_tricks.sliding_window_view(padded, UNFOLD)[::HOP]
    for start in range(0, count, FRAMES_A_POLL):
        _poll(cancelled)
        out[start : start + FRAMES_A_POLL] = _log_mel(frames[start : start + FRAMES_A_POLL])
    return out


def _log_mel(frames: Samples) -> NDArray[np.float64]:
    wave = frames.astype(np.float64)
    emphasised = wave[:, :-1].copy()
    emphasised[:, 1:] -= PREEMPHASIS * wave[:, :-2]
    emphasised[:, 0] *= 1 - PREEMPHASIS
    magnitude = np.abs(np.fft.rfft(emphasised * _window(), FFT))
    logs: NDArray[np.float64] = np.log(np.maximum(magnitude @ mel_filters(), FLOOR))
    return logs


@cache
def _window() -> NDArray[np.float64]:
    return np.hanning(UNFOLD)[:-1]  # periodic, 512 samples


def _check(number: int, clip: Samples) -> None:
    if not len(clip):
        raise FeatureError(f"audio clip {number}: no samples")
    if not np.isfinite(clip).all():
        raise FeatureError(f"audio clip {number}: non-finite sample")
    if np.abs(clip).max() > 1:
        raise FeatureError(f"audio clip {number}: sample outside [-1, 1]")


def _mel(hertz: float) -> float:
    return float(2_595.0 * np.log10(1 + hertz / 700.0))


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    hertz: NDArray[np.float64] = 700.0 * (10 ** (mels / 2_595.0) - 1)
    return hertz


def _poll(cancelled: Cancelled) -> None:
    if cancelled():
        raise FeatureCancelled("Gemma3n audio feature extraction was cancelled")
