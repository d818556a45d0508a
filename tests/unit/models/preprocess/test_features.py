"""Section 4.6: the features of both families.

Figures of the oracle tests were printed by Transformers 5.24's Gemma3nAudioFeatureExtractor (padded
left) and Phi4MultimodalFeatureExtractor for the same signals.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.preprocess.features import gemma3n, phi4mm
from models.preprocess.features.errors import FeatureCancelled, FeatureError
from models.preprocess.frames import gemma3n_frames, phi4mm_frames


def sine(hertz, count=1_600, *, rate=16_000, level=0.25):
    return (level * np.sin(2 * np.pi * hertz * np.arange(count) / rate)).astype(np.float32)


def two_tones():
    cosine = 0.1 * np.cos(2 * np.pi * 1_000 * np.arange(1_600) / 16_000)
    return (0.25 * np.sin(2 * np.pi * 440 * np.arange(1_600) / 16_000) + cosine).astype(np.float32)


def chirp():
    k = np.arange(2_000)
    return (0.4 * np.sin(1e-4 * k * k) + 0.2 * np.sin(0.9 * k)).astype(np.float32)


def phi_of(samples, rate=16_000):
    (features,) = phi4mm.features([phi4mm.Clip(samples=samples, sample_rate=rate)])
    return features


def test_4_6_phi4mm_pins():
    features = phi_of(sine(440))
    assert features.shape == (8, 80)
    assert features.dtype == np.float32
    pins = {(0, 0): 10.0754, (0, 10): 10.1059, (0, 20): 14.4933, (0, 30): 12.3131, (7, 79): 8.6484}
    for at, value in pins.items():
        assert features[at] == pytest.approx(value, abs=1e-4)


def test_4_6_phi4mm_filters():
    filters = phi4mm.mel_filters()
    assert filters.shape == (257, 80)
    assert filters[1, 0] == pytest.approx(0.57565, abs=1e-5)
    assert filters[100, 54] == pytest.approx(0.61648, abs=1e-5)
    assert not filters[0].any()
    assert filters[245].any()
    assert not filters[246:].any()


def test_4_6_phi4mm_agrees_with_transformers():
    features = phi_of(chirp())
    assert features.shape == (11, 80)
    pins = {
        (0, 0): 18.2513,
        (0, 40): 15.6636,
        (3, 7): 16.7012,
        (5, 60): 13.8478,
        (10, 20): 15.3503,
        (10, 78): 13.6088,
    }
    for at, value in pins.items():
        assert features[at] == pytest.approx(value, abs=2e-4)
    # Its last band reaches one bin less far.
    assert features[:, :79].sum(dtype=np.float64) == pytest.approx(13_573.534, abs=0.02)


def test_4_6_phi4mm_at_8_khz_fills_the_lower_half():
    low = phi_of(sine(440, 1_600, rate=8_000), 8_000)
    assert low.shape == (phi4mm_frames(1_600, 8_000), 80)
    upper = phi4mm.mel_filters()[:128].sum(axis=0) == 0
    assert upper.any()
    assert not low[:, upper].any()  # the log of the floor
    assert low[0].argmax() == phi_of(sine(440))[0].argmax()


def test_4_6_phi4mm_clips_are_neither_padded_nor_mixed():
    clips = [
        phi4mm.Clip(samples=sine(440, 1_600), sample_rate=16_000),
        phi4mm.Clip(samples=sine(300, 560), sample_rate=16_000),
    ]
    first, second = phi4mm.features(clips)
    assert (len(first), len(second)) == (8, 2)
    assert np.array_equal(first, phi_of(sine(440)))


def test_4_6_phi4mm_silence_is_the_floor():
    assert not phi_of(np.zeros(1_600, np.float32)).any()


@pytest.mark.parametrize(
    ("samples", "rate", "text"),
    [
        (np.zeros(1_600, np.float32), 7_999, "sample rate 7999 Hz is neither 8000 nor 16000 Hz"),
        (np.zeros(559, np.float32), 16_000, "559 samples, at least 560 are needed"),
        (np.zeros(279, np.float32), 8_000, "279 samples, at least 280 are needed"),
        (np.full(600, np.nan, np.float32), 16_000, "non-finite sample"),
        (np.broadcast_to(np.float32(0), 28_800_001), 16_000, "longer than 1800 seconds"),
    ],
)
def test_4_6_phi4mm_refusals_count_clips_from_one(samples, rate, text):
    good = phi4mm.Clip(samples=sine(440), sample_rate=16_000)
    with pytest.raises(FeatureError) as caught:
        phi4mm.features([good, phi4mm.Clip(samples=samples, sample_rate=rate)])
    assert str(caught.value) == f"audio clip 2: {text}"


@pytest.mark.parametrize(("count", "rate"), [(560, 16_000), (280, 8_000)])
def test_4_6_phi4mm_takes_the_shortest_clip(count, rate):
    assert phi_of(sine(440, count, rate=rate), rate).shape == (2, 80)


def test_4_6_gemma3n_pins():
    features = gemma3n.features([two_tones()])
    assert features.values.shape == (1, 8, 128)
    assert features.values.dtype == np.float32
    pins = {
        (0, 0): -4.3754,
        (0, 10): -2.8352,
        (0, 64): -2.8754,
        (1, 20): -0.9977,
        (3, 100): -11.5129,
    }
    for at, value in pins.items():
        assert features.values[0][at] == pytest.approx(value, abs=1e-4)
    # Near the floor, single precision makes up the difference.
    assert features.values.sum(dtype=np.float64) == pytest.approx(-7_277.97, abs=0.1)


def test_4_6_gemma3n_agrees_with_transformers():
    features = gemma3n.features([two_tones(), sine(300, 1_234, level=0.5), chirp()])
    assert features.values.shape == (3, 10, 128)
    assert features.valid.sum(axis=1).tolist() == [7, 4, 9]
    pins = {
        (0, 0, 10): -2.8407,
        (0, 5, 40): 1.9854,
        (1, 4, 17): -0.3277,
        (1, 9, 100): -11.5129,
        (2, 0, 0): 0.5597,
        (2, 3, 7): 0.0139,
        (2, 9, 60): -5.9895,
    }
    for at, value in pins.items():
        assert features.values[at] == pytest.approx(value, abs=2e-3)
    magnitudes = np.exp(features.values.astype(np.float64)).sum(axis=(1, 2))
    np.testing.assert_allclose(magnitudes, [468.8835, 266.9758, 1_523.1806], atol=1e-3)


def test_4_6_gemma3n_padding_stands_before_the_clip():
    features = gemma3n.features([sine(440, 160), sine(440, 1_600)])
    assert features.valid[1].tolist() == [False] + [True] * 7  # 64 samples of padding
    silence = np.log(np.float32(1e-5))
    assert (features.values[0][:5] == silence).all()
    assert (features.values[0][-1] > silence).any()
    assert not features.valid[0].any()  # 1,504 samples of silence, and frames start every 160


def test_4_6_gemma3n_a_frame_counts_if_it_begins_inside_the_clip():
    count = 128 * 20
    for missing in (0, 1, 159, 160, 161):
        (valid,) = gemma3n.features([sine(440, count), sine(440, count - missing)]).valid[1:]
        assert valid.tolist() == [start * 160 >= missing for start in range(len(valid))]


def test_4_6_gemma3n_cuts_at_thirty_seconds():
    long = np.tile(sine(400, 1_600), 301)
    features = gemma3n.features([long])
    assert features.values.shape == (1, 2_997, 128)
    assert np.array_equal(features.values, gemma3n.features([long[:480_000]]).values)


def test_4_6_gemma3n_clips_too_short_for_a_frame_have_none():
    assert gemma3n.features([sine(440, 512)]).values.shape == (1, 0, 128)


@pytest.mark.parametrize(
    ("clip", "text"),
    [
        (np.zeros(0, np.float32), "no samples"),
        (np.array([0, np.inf], np.float32), "non-finite sample"),
        (np.array([0, -1.01], np.float32), "sample outside [-1, 1]"),
    ],
)
def test_4_6_gemma3n_refusals(clip, text):
    with pytest.raises(FeatureError) as caught:
        gemma3n.features([sine(440), clip])
    assert str(caught.value) == f"audio clip 2: {text}"


@given(count=st.integers(560, 6_000), rate=st.sampled_from([8_000, 16_000]))
def test_4_4_features_are_as_many_as_was_estimated(count, rate):
    samples = sine(440, count)
    assert len(phi_of(samples, rate)) == phi4mm_frames(count, rate)
    assert gemma3n.features([samples]).values.shape[1] == gemma3n_frames(count, 16_000)


def test_5_3_phi4mm_polls(countdown):
    clip = phi4mm.Clip(samples=sine(440, 160 * 200), sample_rate=16_000)  # 198 frames
    counted = countdown()
    phi4mm.features([clip, clip], counted)
    assert counted.asked == 1 + 2 * (1 + 4 + 1)
    for left in range(counted.asked):
        with pytest.raises(FeatureCancelled) as caught:
            phi4mm.features([clip, clip], countdown(left))
        assert str(caught.value) == "Phi4MM audio feature extraction was cancelled"


def test_5_3_gemma3n_polls(countdown):
    clip = sine(440, 160 * 40)  # 37 frames
    counted = countdown()
    gemma3n.features([clip, clip], counted)
    assert counted.asked == 1 + 2 * (1 + 1 + 5) + 1
    for left in range(counted.asked):
        with pytest.raises(FeatureCancelled) as caught:
            gemma3n.features([clip, clip], countdown(left))
        assert str(caught.value) == "Gemma3n audio feature extraction was cancelled"
