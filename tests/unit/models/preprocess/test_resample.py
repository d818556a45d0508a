"""Section 4.5: SpeechLib's integer ratios and the deterministic line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.preprocess.cancellation import no_poll
from models.preprocess.errors import WaveformError
from models.preprocess.resample import linear, linear_shape, polyphase, polyphase_shape


@pytest.fixture(scope="module")
def wave():
    return (0.25 * np.sin(2 * np.pi * 440 * np.arange(64) / 48_000)).astype(np.float32)


@pytest.fixture(scope="module")
def chirp():
    k = np.arange(2_000)
    return (0.4 * np.sin(1e-4 * k * k) + 0.2 * np.sin(0.9 * k)).astype(np.float32)


@pytest.mark.parametrize(
    ("rate", "first"),
    [
        (32_000, [0.0022468742, 0.028348744, 0.057180017, 0.084596574]),
        (48_000, [0.0039218343, 0.042409703, 0.08486806, 0.12377945]),
    ],
)
def test_4_5_polyphase_goldens(wave, rate, first):
    np.testing.assert_allclose(polyphase(wave, rate, no_poll)[:4], first, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("rate", "factor", "effective"),
    [
        (8_000, 1, 8_000),
        (11_025, 1, 8_000),
        (12_000, 1, 8_000),
        (15_999, 1, 8_000),
        (16_000, 1, 16_000),
        (22_050, 1, 16_000),
        (24_000, 1, 16_000),
        (31_999, 1, 16_000),
        (32_000, 2, 16_000),
        (44_100, 2, 16_000),
        (48_000, 3, 16_000),
        (96_000, 6, 16_000),
        (192_000, 12, 16_000),
    ],
)
def test_4_5_rates_are_divided_or_relabelled(rate, factor, effective):
    shape = polyphase_shape(1_001, rate)
    assert (shape.samples, shape.sample_rate) == (-(-1_001 // factor), effective)
    samples = np.linspace(-1, 1, 1_001, dtype=np.float32)
    out = polyphase(samples, rate, no_poll)
    assert len(out) == shape.samples
    if factor == 1:
        assert np.array_equal(out, samples)


# Length, sum and sum of magnitudes of scipy.signal.resample_poly(chirp, 1, factor), SciPy 1.17.1.
SCIPY = {
    2: (1000, 13.1053041, 266.5411167),
    3: (667, 8.7527465, 177.6019888),
    4: (500, 6.5623950, 125.6854314),
    5: (400, 5.2595896, 99.5527060),
    6: (334, 4.3704236, 83.0636817),
    11: (182, 2.3260005, 32.5588210),
    12: (167, 2.1474337, 27.8901347),
}


@pytest.mark.parametrize("factor", sorted(SCIPY))
def test_4_5_polyphase_is_scipys(chirp, factor):
    out = polyphase(chirp, 16_000 * factor, no_poll).astype(np.float64)
    length, total, magnitude = SCIPY[factor]
    assert len(out) == length
    assert out.sum() == pytest.approx(total, abs=1e-5)
    assert np.abs(out).sum() == pytest.approx(magnitude, abs=1e-5)


def test_4_5_blocks_leave_no_seam():
    samples = np.random.default_rng(3).uniform(-1, 1, 9_000).astype(np.float32)
    whole = polyphase(samples, 32_000, no_poll)
    later = polyphase(samples[2_000:], 32_000, no_poll)
    np.testing.assert_allclose(whole[1_010:], later[10:], atol=1e-7)


def test_4_5_polyphase_bounds():
    text = "audio source sample rate limit exceeded: actual 192001, maximum 192000"
    with pytest.raises(WaveformError, match=text):
        polyphase_shape(1, 192_001)
    most = 536_870_912 // 41  # outputs of factor 2
    assert polyphase_shape(2 * most, 32_000).samples == most
    text = f"audio Phi4MM resample work units limit exceeded: actual {41 * (most + 1)}, maximum 536870912"
    with pytest.raises(WaveformError, match=text):
        polyphase_shape(2 * most + 1, 32_000)


def test_4_5_downsample_factor_is_bounded(monkeypatch):
    monkeypatch.setattr("models.preprocess.resample.SPEECHLIB_MAX_RATE", 1_000_000)
    text = "audio Phi4MM downsample factor limit exceeded: actual 13, maximum 12"
    with pytest.raises(WaveformError, match=text):
        polyphase_shape(1, 208_000)


def test_4_5_linear_golden():
    samples = np.array([1, -1, 0], np.float32)  # the stereo frames of the golden, averaged
    assert linear(samples, 8_000, no_poll).tolist() == [1, 0, -1, -0.5, 0, 0]


def test_4_5_linear_copies_equal_rates(wave):
    assert np.array_equal(linear(wave, 16_000, no_poll), wave)


@given(
    count=st.integers(1, 6_000),
    rate=st.sampled_from([1_000, 8_000, 11_025, 22_050, 44_100, 48_000, 192_000]),
)
def test_4_5_linear_follows_its_definition(count, rate):
    samples = np.sin(np.arange(count)).astype(np.float32)
    out = linear(samples, rate, no_poll)
    assert len(out) == linear_shape(count, rate).samples == -(-count * 16_000 // rate)
    for i in {0, len(out) // 3, len(out) - 1}:
        left, rest = divmod(i * rate, 16_000)
        a, b = samples[min(left, count - 1)], samples[min(left + 1, count - 1)]
        assert out[i] == a + (b - a) * (np.float32(rest) / np.float32(16_000))
