"""Source and transform against NumPy's own, on random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.kokoro.config import VocoderConfig
from models.kokoro.vocoder import HARMONICS, SAMPLE_RATE, Source, Stft
from models.kokoro.weights import Weights

N_FFT, HOP = 20, 5
WINDOW = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
CONFIG = VocoderConfig(
    rates=(10, 6),
    kernels=(20, 12),
    block_kernels=(3,),
    block_dilations=((1,),),
    channels=8,
    n_fft=N_FFT,
    hop=HOP,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def spectrum(samples):
    padded = np.pad(samples, N_FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP]
    return np.fft.rfft(frames * WINDOW, axis=1)


def overlapped(spectra):
    frames = np.fft.irfft(spectra, N_FFT, axis=1) * WINDOW
    total = np.zeros(HOP * (len(frames) - 1) + N_FFT)
    power = np.zeros_like(total)
    for n, frame in enumerate(frames):
        total[n * HOP : n * HOP + N_FFT] += frame
        power[n * HOP : n * HOP + N_FFT] += WINDOW**2
    return (total / np.where(power > 1e-8, power, 1))[N_FFT // 2 : -N_FFT // 2]


def test_analysis_is_the_short_time_transform(rng):
    samples = rng.normal(size=300).astype(np.float32)
    magnitude, phase = np.split(np.array(Stft(N_FFT, HOP).analyse(mx.array(samples))), 2, axis=1)
    np.testing.assert_allclose(magnitude * np.exp(1j * phase), spectrum(samples), atol=1e-5)


def test_synthesis_is_the_inverse_transform(rng):
    magnitude = rng.uniform(0.1, 2, size=(61, N_FFT // 2 + 1)).astype(np.float32)
    phase = rng.uniform(-1, 1, size=magnitude.shape).astype(np.float32)
    got = np.array(Stft(N_FFT, HOP).synthesise(mx.array(magnitude), mx.array(phase)))
    np.testing.assert_allclose(got, overlapped(magnitude * np.exp(1j * phase)), atol=1e-5)


def test_synthesis_undoes_analysis(rng):
    samples = rng.normal(size=400).astype(np.float32)
    stft = Stft(N_FFT, HOP)
    magnitude, phase = mx.split(stft.analyse(mx.array(samples)), 2, axis=1)
    got = stft.synthesise(mx.contiguous(magnitude), mx.contiguous(phase))
    np.testing.assert_allclose(np.array(got), samples, atol=1e-4)


def test_source_is_nine_harmonics_where_voiced(rng):
    weight = rng.normal(size=(1, HARMONICS)).astype(np.float32)
    bias = np.array([0.01], np.float32)
    name = "decoder.generator.m_source.l_linear"
    weights = Weights(
        {f"{name}.weight": mx.array(weight), f"{name}.bias": mx.array(bias)}, source="random"
    )
    pitch = np.array([0, 200, 210, 220, 5, 0], np.float32)
    got = np.array(Source(weights, CONFIG)(mx.array(pitch)))
    step = 300  # samples of one value of the pitch
    cycles = np.cumsum(pitch.astype(np.float64) / SAMPLE_RATE) * step
    at = np.interp(np.arange(len(pitch) * step), (np.arange(len(pitch)) + 0.5) * step - 0.5, cycles)
    waves = np.sin(2 * np.pi * at[:, None] * np.arange(1, HARMONICS + 1))
    voiced = np.repeat(pitch > 10, step)[:, None]
    expected = np.tanh((0.1 * waves * voiced) @ weight[0] + bias)
    np.testing.assert_allclose(got, expected, atol=1e-5)
