"""Section 3: the owned result, and the boundary's order of bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from models.preprocess.batch import prepare
from models.preprocess.cancellation import PreprocessingCancelled
from models.preprocess.errors import WaveformError
from models.preprocess.source import EncodedClip, SourceKind


def limit(name, actual, maximum):
    return f"audio {name} limit exceeded: actual {actual}, maximum {maximum}"


def test_3_every_number_of_a_clip_is_recorded(silence, clips, phi):
    data = silence(4_410, rate=44_100, channels=2)
    (clip,) = prepare(clips(data, kind=SourceKind.DATA_URI), phi).clips
    assert len(clip.samples) == 2_205
    assert clip.samples.dtype == np.float32
    assert (clip.sample_rate, clip.source_sample_rate, clip.source_channels) == (16_000, 44_100, 2)
    assert (clip.source_samples, clip.source_duration_micros) == (4_410, 100_000)
    assert (clip.encoded_bytes, clip.source_kind) == (len(data), "data_uri")
    assert clip.placeholder_ordinal == 1
    assert clip.feature_frames == (2_205 - 400) // 160 + 1


def test_3_effective_rate_is_recorded(silence, clips, phi):
    assert prepare(clips(silence(800, rate=11_025)), phi).clips[0].sample_rate == 8_000


def test_3_every_number_of_a_batch_is_recorded(silence, prepared):
    batch = prepared(silence(800, rate=8_000), silence(1_600), silence(3_200, rate=32_000))
    assert batch.family == "gemma3n"
    assert [len(clip.samples) for clip in batch.clips] == [1_600, 1_600, 1_600]
    assert (batch.total_source_samples, batch.total_samples) == (5_600, 4_800)
    assert batch.total_source_duration_micros == 300_000
    assert batch.estimated_frames == 3 * 8
    assert batch.effective_audio_tokens == 3 * 188


def test_4_4_phi4mm_tokens_are_rounded_up_for_each_clip(silence, prepared, phi):
    batch = prepared(silence(1_600), silence(1_760), policy=phi)  # 8 and 9 frames
    assert (batch.estimated_frames, batch.effective_audio_tokens) == (17, 1 + 2)


def test_3_boundaries_lie_end_to_end_in_order(silence, prepared):
    batch = prepared(silence(10), silence(20, rate=8_000), silence(30))
    assert [b.clip_index for b in batch.boundaries] == [0, 1, 2]
    assert [b.placeholder_ordinal for b in batch.boundaries] == [1, 2, 3]
    assert [(b.start_sample, b.end_sample) for b in batch.boundaries] == [
        (0, 10),
        (10, 50),
        (50, 80),
    ]
    assert all(a.end_sample == b.start_sample for a, b in pairwise(batch.boundaries))


def test_3_durations_are_whole_micros(silence, prepared):
    assert prepared(silence(1, rate=3)).total_source_duration_micros == 333_333


def test_3_the_kind_of_source_changes_nothing_else(wav, clips, gemma):
    data = wav(np.linspace(-1, 1, 999, dtype=np.float32))
    batches = [prepare(clips(data, kind=kind), gemma) for kind in SourceKind]
    assert {batch.clips[0].source_kind for batch in batches} == set(SourceKind)
    first = batches[0]
    for batch in batches[1:]:
        assert np.array_equal(batch.clips[0].samples, first.clips[0].samples)
        assert batch.boundaries == first.boundaries
        assert batch.total_source_duration_micros == first.total_source_duration_micros


def test_3_no_clips(refused):
    assert refused() == "audio clip 0 is empty"


def test_3_clip_count(silence, refused, prepared):
    data = silence(1)
    assert len(prepared(*[data] * 16).clips) == 16
    assert refused(*[data] * 17) == limit("clip count", 17, 16)


@pytest.mark.parametrize("ordinals", [(0,), (2,), (1, 1), (2, 1), (1, 3)])
def test_3_ordinals_count_from_one(silence, gemma, ordinals):
    clips = [
        EncodedClip(data=silence(1), kind=SourceKind.CLI_FILE, placeholder_ordinal=n)
        for n in ordinals
    ]
    at = next(i for i, n in enumerate(ordinals) if n != i + 1)
    text = f"clip {at} maps to ordinal {ordinals[at]}, expected {at + 1}"
    with pytest.raises(WaveformError) as caught:
        prepare(clips, gemma)
    assert str(caught.value) == f"audio placeholder mapping is invalid: {text}"


def test_3_empty_bytes(silence, refused):
    assert refused(silence(1), b"") == "audio clip 1 is empty"


def test_3_encoded_bytes(silence, refused, prepared, narrowed):
    data = silence(100)
    policy = narrowed(max_encoded_bytes_per_clip=len(data))
    assert prepared(data, policy=policy)
    policy = narrowed(max_encoded_bytes_per_clip=len(data) - 1)
    text = limit("encoded bytes per clip", len(data), len(data) - 1)
    assert refused(data, policy=policy) == text
    policy = narrowed(max_encoded_bytes_per_request=2 * len(data) - 1)
    text = limit("encoded bytes per request", 2 * len(data), 2 * len(data) - 1)
    assert refused(data, data, policy=policy) == text


@pytest.mark.parametrize(
    "bound",
    [
        ("source samples per request", "max_source_samples_per_request", 8_000),
        ("source duration micros per request", "max_source_duration_micros_per_request", 1_000_000),
        ("normalized samples per request", "max_normalized_samples_per_request", 16_000),
        ("feature frames per request", "max_frames_per_request", 97),
        ("waveform result bytes per request", "max_waveform_result_bytes_per_request", 64_000),
    ],
)
def test_3_sums_over_the_request_are_bounded_inclusively(
    silence, refused, prepared, narrowed, bound
):
    name, field, one = bound
    data = silence(8_000, rate=8_000)
    assert prepared(data, data, policy=narrowed(**{field: 2 * one}))
    text = limit(name, 2 * one, 2 * one - 1)
    assert refused(data, data, policy=narrowed(**{field: 2 * one - 1})) == text


def test_3_working_bytes_are_the_largest_source_and_the_result(
    silence, refused, prepared, narrowed
):
    files = silence(4_000, rate=32_000), silence(1_000)
    working = 4 * 4_000 + 4 * (2_000 + 1_000)
    policy = narrowed(max_waveform_working_bytes_per_request=working)
    assert prepared(*files, policy=policy)
    policy = narrowed(max_waveform_working_bytes_per_request=working - 1)
    text = limit("waveform working bytes per request", working, working - 1)
    assert refused(*files, policy=policy) == text


def test_3_duration_samples_of_gemma_are_the_samples_of_a_clip(silence, refused, narrowed):
    policy = narrowed(max_samples_per_clip=1_599)
    assert refused(silence(800, rate=8_000), policy=policy) == limit(
        "duration samples", 1_600, 1_599
    )


def test_3_duration_samples_of_phi_are_seconds_at_the_effective_rate(
    silence, refused, prepared, phi
):
    policy = replace(phi, max_duration_seconds=1, max_samples_per_clip=16_000)
    assert prepared(silence(8_000, rate=8_000), policy=policy)
    # Relabelled, 22.05 kHz seconds are longer than they were.
    assert refused(silence(22_050, rate=22_050), policy=policy) == limit(
        "duration samples", 22_050, 16_000
    )


def test_3_feature_frames_per_clip(silence, refused, narrowed):
    text = limit("feature frames per clip", 97, 96)
    assert refused(silence(16_000), policy=narrowed(max_frames_per_clip=96)) == text


def test_3_real_lengths_are_checked_again(encoded, tone, refused, narrowed, flac_total):
    data = flac_total(encoded(tone(1.0), "FLAC"), 100)
    assert refused(data, policy=narrowed(max_samples_per_clip=15_999)) == limit(
        "duration samples", 16_000, 15_999
    )
    assert refused(data, policy=narrowed(max_frames_per_clip=96)) == limit(
        "feature frames per clip", 97, 96
    )


def test_3_bounds_are_checked_in_the_documented_order(silence, refused, narrowed):
    """With every bound broken, each shows once those before it are widened."""
    data = silence(16_000)
    order = [
        ("max_clips", "clip count"),
        ("max_encoded_bytes_per_clip", "encoded bytes per clip"),
        ("max_encoded_bytes_per_request", "encoded bytes per request"),
        ("max_source_sample_rate", "source sample rate"),
        ("max_source_samples_per_request", "source samples per request"),
        ("max_source_duration_micros_per_request", "source duration micros per request"),
        ("max_samples_per_clip", "duration samples"),
        ("max_normalized_samples_per_request", "normalized samples per request"),
        ("max_frames_per_clip", "feature frames per clip"),
        ("max_frames_per_request", "feature frames per request"),
        ("max_waveform_result_bytes_per_request", "waveform result bytes per request"),
        ("max_waveform_working_bytes_per_request", "waveform working bytes per request"),
    ]
    broken = dict.fromkeys((field for field, _ in order), 0)
    for field, name in order:
        assert refused(data, policy=narrowed(**broken)).startswith(f"audio {name} limit exceeded")
        del broken[field]


def test_3_a_request_that_is_given_up_is_not_even_counted(clips, silence, gemma):
    for files in ((), (silence(1),) * 17):
        with pytest.raises(PreprocessingCancelled, match="during Acquisition for clip None"):
            prepare(clips(*files), gemma, lambda: True)


def test_3_a_clip_is_placed_before_it_is_weighed_and_weighed_before_it_is_opened(narrowed):
    def text(ordinal, data, most):
        clip = EncodedClip(data=data, kind=SourceKind.CLI_FILE, placeholder_ordinal=ordinal)
        with pytest.raises(WaveformError) as caught:
            prepare([clip], narrowed(max_encoded_bytes_per_clip=most))
        return str(caught.value)

    assert "maps to ordinal 2, expected 1" in text(2, b"", 0)
    assert text(1, b"", 0) == "audio clip 0 is empty"
    assert text(1, b"junk", 3) == limit("encoded bytes per clip", 4, 3)
    assert "missing RIFF/WAVE header" in text(1, b"junk", 4)


def test_3_every_clip_is_preflighted_before_any_is_decoded(wav, refused):
    bad = wav(np.array([np.nan], np.float32))
    assert refused(bad, b"RIFF") == "audio clip 1 is corrupt: missing RIFF/WAVE header"


def test_3_invalid_audio_is_fatal_to_the_request(silence, refused):
    assert refused(silence(100), b"junk").startswith("audio clip 1 is corrupt")


def test_4_5_a_single_44100_hz_clip_is_halved(silence, prepared, phi):
    assert prepared(silence(44_100, rate=44_100), policy=phi).total_samples == 22_050


def test_4_5_polyphase_work_is_refused_before_decoding(silence, refused, phi, monkeypatch):
    monkeypatch.setattr("models.preprocess.resample.SPEECHLIB_MAX_WORK", 100)
    monkeypatch.setattr("models.preprocess.batch.decode", None)
    text = limit("Phi4MM resample work units", 41 * 50, 100)
    assert refused(silence(100, rate=32_000), policy=phi) == text
