"""The log-mel spectrogram that Whisper listens to: 16 kHz samples to frames of 10 ms.

Knows only samples; computed with NumPy in float32, the power of each frame by one matrix product.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.base import Samples

Floats = NDArray[np.float32]
SAMPLE_RATE = 16_000  # Hz
WINDOW_SECONDS = 30.0
WINDOW_SAMPLES = int(SAMPLE_RATE * WINDOW_SECONDS)
N_FFT = 400  # samples, 25 ms
HOP = 160  # samples, 10 ms
WINDOW_FRAMES = WINDOW_SAMPLES // HOP
BINS = N_FFT // 2 + 1
FLOOR = 1e-10  # of a band's power
RANGE = 8.0  # decades below the loudest band that are kept
LINEAR_HZ, LINEAR_TOP_HZ = 200 / 3, 1000.0  # Slaney: a mel is 200/3 Hz up to 1000 Hz,
LOG_STEP = np.log(6.4) / 27  # and from there on 27 mels are a factor of 6.4


def log_mel(samples: Samples, n_mels: int) -> Floats:
    """At most 30 s of samples -> (3000, n_mels), what is missing padded with silence."""
    used = min(WINDOW_FRAMES, -(-(len(samples) + N_FFT // 2) // HOP))  # frames that reach samples
    mel = np.full((WINDOW_FRAMES, n_mels), np.log10(FLOOR), np.float32)
    if used:
        power = _power(_frames(samples, used)) @ filters(n_mels)
        mel[:used] = np.log10(np.maximum(power, FLOOR, out=power), out=power)
    np.maximum(mel, mel.max() - RANGE, out=mel)
    mel += 4
    mel /= 4
    return mel


def _frames(samples: Samples, count: int) -> Floats:
    """Frames centred on each hop of the window padded with zeros, then reflected at its ends."""
    padded = np.zeros(WINDOW_SAMPLES + N_FFT, np.float32)
    half = N_FFT // 2
    padded[half : half + len(samples)] = samples
    padded[:half] = padded[N_FFT:half:-1]
    padded[-half:] = padded[-half - 2 : -N_FFT - 2 : -1]
    return np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[: count * HOP : HOP]


def _power(frames: Floats) -> Floats:
    spectrum = np.fft.rfft(frames * hann())  # in float32, as its argument
    power: Floats = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
    return power


@cache
def hann() -> Floats:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)).astype(np.float32)


@cache
def filters(n_mels: int) -> Floats:
    """Triangles over the bins, (201, n_mels), each of unit area in Hz."""
    bins = np.linspace(0, SAMPLE_RATE / 2, BINS)
    edges = _to_hz(np.linspace(0, _to_mel(SAMPLE_RATE / 2), n_mels + 2))
    rise = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0, np.minimum(rise, fall))
    return (triangles * 2 / (edges[2:] - edges[:-2])).astype(np.float32)


def _to_mel(hz: float) -> float:
    top = LINEAR_TOP_HZ / LINEAR_HZ
    return (
        hz / LINEAR_HZ if hz < LINEAR_TOP_HZ else float(top + np.log(hz / LINEAR_TOP_HZ) / LOG_STEP)
    )


def _to_hz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    top = LINEAR_TOP_HZ / LINEAR_HZ
    return np.where(mels < top, mels * LINEAR_HZ, LINEAR_TOP_HZ * np.exp((mels - top) * LOG_STEP))
