"""Log-mel against a reference written from its definition, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from models.whisper import mel

RATE, FFT, HOP = 16_000, 400, 160


def slaney_hz(mels: np.ndarray) -> np.ndarray:
    return np.where(mels < 15, mels * 200 / 3, 1000 * 6.4 ** ((mels - 15) / 27))


def reference(samples: np.ndarray, n_mels: int) -> np.ndarray:
    padded = np.zeros(480_000)
    padded[: len(samples)] = samples
    padded = np.pad(padded, 200, mode="reflect")
    window = np.hanning(FFT + 1)[:-1]
    frames = np.stack([padded[i * HOP : i * HOP + FFT] * window for i in range(3000)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    edges = slaney_hz(np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), n_mels + 2))
    bank = np.zeros((n_mels, 201))
    for band, (low, middle, high) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        for k, hz in enumerate(np.arange(201) * RATE / FFT):
            slope = (hz - low) / (middle - low) if hz < middle else (high - hz) / (high - middle)
            bank[band, k] = max(0.0, slope) * 2 / (high - low)
    logs = np.log10(np.maximum(power @ bank.T, 1e-10))
    return (np.maximum(logs, logs.max() - 8) + 4) / 4


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("length", [0, 1, 150, 16_000, 300_123, 479_990, 480_000])
def test_equals_the_reference(length, n_mels):
    rng = np.random.default_rng(length)
    chirp = np.sin(np.linspace(0, 40, length) ** 2) * rng.uniform(0, 0.5, length)
    samples = chirp.astype(np.float32)
    got = mel.log_mel(samples, n_mels)
    assert got.shape == (3000, n_mels)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reference(samples, n_mels), atol=1e-4)


def test_equals_the_reference_on_speech(speech):
    samples = speech("jfk.wav")
    np.testing.assert_allclose(mel.log_mel(samples, 80), reference(samples, 80), atol=1e-4)
