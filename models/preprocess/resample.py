"""The two published ways to 16 kHz: SpeechLib's integer ratios, and a deterministic line.

`*_shape` says what a clip becomes before anything is allocated. SpeechLib's way keeps its oddity:
rates that no whole number divides are relabelled, so that 44.1 kHz becomes "16 kHz" by halving.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.base import Samples
from models.preprocess.cancellation import Poll
from models.preprocess.errors import LimitExceeded
from models.preprocess.policy import SAMPLE_RATE

SPEECHLIB_MAX_RATE = 192_000  # Hz
SPEECHLIB_MAX_FACTOR = 12
SPEECHLIB_MAX_WORK = 536_870_912  # multiplications
KAISER_BETA = 5.0
TAPS_A_POLL = 64
POLYPHASE_OUTPUTS_A_POLL = 1_024
LINEAR_OUTPUTS_A_POLL = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    samples: int
    sample_rate: int
    """Hz; what the samples are taken for, which SpeechLib's way only nearly makes true."""


def polyphase_shape(samples: int, source_rate: int) -> Shape:
    if source_rate > SPEECHLIB_MAX_RATE:
        raise LimitExceeded("source sample rate", actual=source_rate, maximum=SPEECHLIB_MAX_RATE)
    factor, rate = _integer_ratio(source_rate)
    if factor > SPEECHLIB_MAX_FACTOR:
        raise LimitExceeded("Phi4MM downsample factor", actual=factor, maximum=SPEECHLIB_MAX_FACTOR)
    outputs = -(-samples // factor)
    work = outputs * (20 * factor + 1) if factor > 1 else 0
    if work > SPEECHLIB_MAX_WORK:
        raise LimitExceeded("Phi4MM resample work units", actual=work, maximum=SPEECHLIB_MAX_WORK)
    return Shape(samples=outputs, sample_rate=rate)


def polyphase(samples: Samples, source_rate: int, poll: Poll) -> Samples:
    """What SciPy's resample_poly(samples, 1, factor) gives."""
    poll()
    factor, _ = _integer_ratio(source_rate)
    if factor == 1:
        return samples
    taps = _lowpass(factor, poll)
    out = np.empty(-(-len(samples) // factor), np.float32)
    for start in range(0, len(out), POLYPHASE_OUTPUTS_A_POLL):
        poll()
        stop = min(len(out), start + POLYPHASE_OUTPUTS_A_POLL)
        out[start:stop] = _filtered(samples, taps, factor, start, stop)
    poll()
    return out


def linear_shape(samples: int, source_rate: int) -> Shape:
    return Shape(samples=-(-samples * SAMPLE_RATE // source_rate), sample_rate=SAMPLE_RATE)


def linear(samples: Samples, source_rate: int, poll: Poll) -> Samples:
    poll()
    if source_rate == SAMPLE_RATE:
        return samples
    out = np.empty(linear_shape(len(samples), source_rate).samples, np.float32)
    for start in range(0, len(out), LINEAR_OUTPUTS_A_POLL):
        poll()
        index = np.arange(start, min(len(out), start + LINEAR_OUTPUTS_A_POLL))
        left, rest = np.divmod(index * source_rate, SAMPLE_RATE)
        last = len(samples) - 1
        a, b = samples[np.minimum(left, last)], samples[np.minimum(left + 1, last)]
        out[index] = a + (b - a) * (rest.astype(np.float32) / np.float32(SAMPLE_RATE))
    return out


def _integer_ratio(source_rate: int) -> tuple[int, int]:
    """Rates below 8 kHz, the least that the family takes, have none."""
    rate = SAMPLE_RATE if source_rate >= SAMPLE_RATE else 8_000
    return source_rate // rate, rate


def _lowpass(factor: int, poll: Poll) -> NDArray[np.float64]:
    """A Kaiser-windowed sinc over 20 output samples, of gain one."""
    half = 10 * factor
    window = np.kaiser(2 * half + 1, KAISER_BETA)
    taps = np.empty(2 * half + 1)
    for start in range(0, len(taps), TAPS_A_POLL):
        poll()
        part = slice(start, start + TAPS_A_POLL)
        offset = np.arange(len(taps))[part] - half
        taps[part] = np.sinc(offset / factor) / factor * window[part]
    lowpass: NDArray[np.float64] = taps / taps.sum()
    return lowpass


def _filtered(
    samples: Samples, taps: NDArray[np.float64], factor: int, start: int, stop: int
) -> NDArray[np.float64]:
    """Outputs [start, stop), in double precision; beyond the ends the signal is zero."""
    half = len(taps) // 2
    first, last = start * factor - half, (stop - 1) * factor + half + 1
    inside = samples[max(0, first) : last].astype(np.float64)
    padded = np.pad(inside, (max(0, -first), max(0, last - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps))[::factor]
    filtered: NDArray[np.float64] = windows @ taps  # symmetric: correlation is convolution
    return filtered
