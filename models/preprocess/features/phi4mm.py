"""Phi-4 Multimodal's features: natural-log Mel energies of SpeechLib, clip by clip, unpadded.

Takes normalised clips at 16 kHz or 8 kHz. The Mel bands go to 7,690 Hz, so that an 8 kHz clip fills
the lower half of its spectrum and zeros stand for the rest.
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
from models.preprocess.frames import phi4mm_frames

MELS = 80
BINS = 257  # of a 512-point transform at 16 kHz
MAX_HZ = 7_690.0
MAX_SECONDS = 1_800
MIN_SAMPLES = {16_000: 560, 8_000: 280}
PREEMPHASIS = 0.97
PCM_SCALE = 32_768.0
FRAMES_A_POLL = 64

Features = NDArray[np.float32]
"""Shape (frames, 80)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    samples: Samples
    sample_rate: int
    """Hz; 8,000 or 16,000."""


def features(clips: Sequence[Clip], cancelled: Cancelled = never) -> list[Features]:
    _poll(cancelled)
    return [_of_clip(number, clip, cancelled) for number, clip in enumerate(clips, start=1)]


@cache
def mel_filters() -> NDArray[np.float64]:
    """Shape (257, 80): triangles in the Mel domain."""
    step = float(_mel(np.array(MAX_HZ))) / (MELS + 1)
    centres: NDArray[np.floating] = step * np.arange(1, MELS + 1)
    last = int(MAX_HZ * 512 / 16_000 + 0.5)
    bins = np.arange(1, last)
    distance = np.abs(centres[None, :] - _mel(bins * (16_000 / 512))[:, None])
    filters = np.zeros((BINS, MELS))
    filters[bins] = np.maximum(0.0, 1 - distance / step)
    return filters


def _of_clip(number: int, clip: Clip, cancelled: Cancelled) -> Features:
    _poll(cancelled)
    _check(number, clip)
    length, hop = (400, 160) if clip.sample_rate == 16_000 else (200, 80)
    count = phi4mm_frames(len(clip.samples), clip.sample_rate)
    frames = np.lib.stride_tricks.sliding_window_view(clip.samples, length)[::hop]
    out = np.empty((count, MELS), np.float32)
    for start in range(0, count, FRAMES_A_POLL):
        _poll(cancelled)
        out[start : start + FRAMES_A_POLL] = _log_mel(frames[start : start + FRAMES_A_POLL])
    _poll(cancelled)
    return out


def _check(number: int, clip: Clip) -> None:
    least = MIN_SAMPLES.get(clip.sample_rate)
    if least is None:
        raise _refused(number, f"sample rate {clip.sample_rate} Hz is neither 8000 nor 16000 Hz")
    if len(clip.samples) > MAX_SECONDS * clip.sample_rate:
        raise _refused(number, f"longer than {MAX_SECONDS} seconds")
    if len(clip.samples) < least:
        raise _refused(number, f"{len(clip.samples)} samples, at least {least} are needed")
    if not np.isfinite(clip.samples).all():
        raise _refused(number, "non-finite sample")


def _log_mel(frames: Samples) -> NDArray[np.float64]:
    wave = frames.astype(np.float64)
    before = np.concatenate([wave[:, :1], wave[:, :-1]], axis=1)
    length = wave.shape[1]
    emphasised = (wave - PREEMPHASIS * before) * PCM_SCALE * np.hamming(length)
    spectrum = np.fft.rfft(emphasised, 512 if length == 400 else 256)
    power = np.abs(spectrum) ** 2
    if length == 200:  # 8 kHz: without Nyquist, and silence above
        power = np.pad(power[:, :-1], ((0, 0), (0, BINS - 128)))
    logs: NDArray[np.float64] = np.log(np.maximum(power @ mel_filters(), 1.0))
    return logs


def _mel(hertz: NDArray[np.floating]) -> NDArray[np.float64]:
    mels: NDArray[np.float64] = 1_127.0 * np.log1p(hertz / 700.0)
    return mels


def _refused(number: int, reason: str) -> FeatureError:
    return FeatureError(f"audio clip {number}: {reason}")


def _poll(cancelled: Cancelled) -> None:
    if cancelled():
        raise FeatureCancelled("Phi4MM audio feature extraction was cancelled")
