"""Sections 4.1 to 4.3: what checkpoints may ask for, and the pinned defaults."""

from __future__ import annotations

import json

import pytest

from models.preprocess.errors import WaveformError
from models.preprocess.policy import PINNED, Family
from models.preprocess.policy_config import derive_policy, load_policy

PREFIX = "audio source context failed for clip 0: invalid loaded audio processor config: "
INCOMPATIBLE = "loaded audio policy is incompatible with the pinned mono f32 16 kHz processor"
BOUNDS = [
    "max_encoded_bytes_per_clip",
    "max_clips",
    "max_encoded_bytes_per_request",
    "max_source_samples_per_request",
    "max_normalized_samples_per_request",
    "max_frames_per_request",
    "max_waveform_result_bytes_per_request",
    "max_waveform_working_bytes_per_request",
    "max_prepared_result_bytes_per_request",
    "max_source_duration_micros_per_request",
    "maximum_source_sample_rate",
]


def field(key: str) -> str:
    return "max_source_sample_rate" if key == "maximum_source_sample_rate" else key


def nested(path: str, value) -> dict:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def derived(processor=None, config=None, family=Family.GEMMA3N):
    return derive_policy(family, processor=processor or {}, config=config or {})


def reason(processor=None, config=None, family=Family.GEMMA3N) -> str:
    with pytest.raises(WaveformError) as caught:
        derived(processor, config, family)
    assert str(caught.value).startswith(PREFIX)
    return str(caught.value).removeprefix(PREFIX)


def test_4_3_pinned_phi4mm():
    policy = derived(family=Family.PHI4MM)
    assert policy == PINNED[Family.PHI4MM]
    assert policy.source.endswith("93f923e1a7727d1c4f446756212d9d3e8fcc5d81")
    rates = (policy.sample_rate, policy.min_source_sample_rate, policy.max_source_sample_rate)
    assert rates == (16_000, 8_000, 192_000)
    assert (policy.max_duration_seconds, policy.max_samples_per_clip) == (1_800, 28_800_000)
    assert policy.max_encoded_bytes_per_clip == 268_435_456
    assert policy.max_encoded_bytes_per_request == 268_435_456
    assert policy.max_clips == 16
    assert policy.max_source_samples_per_request == 345_600_000
    assert policy.max_normalized_samples_per_request == 28_800_000
    assert policy.max_source_duration_micros_per_request == 1_800_000_000
    assert (policy.frame_length, policy.frame_hop) == (400, 160)
    assert (policy.max_frames_per_clip, policy.max_frames_per_request) == (179_998, 179_998)
    assert policy.max_waveform_result_bytes_per_request == 134_217_728
    assert policy.max_waveform_working_bytes_per_request == 536_870_912
    assert policy.max_prepared_result_bytes_per_request == 268_435_456
    assert (policy.family, policy.dtype, policy.channels) == ("phi4mm", "f32", 1)
    assert (policy.resampling, policy.soft_tokens_per_clip) == ("scipy_polyphase_integer", None)


def test_4_3_pinned_gemma3n():
    policy = derived()
    assert policy == PINNED[Family.GEMMA3N]
    assert policy.source.endswith("181beb3ba4c47098ed8cbc97ee250d1d45ae0107")
    rates = (policy.sample_rate, policy.min_source_sample_rate, policy.max_source_sample_rate)
    assert rates == (16_000, 1, 192_000)
    assert (policy.max_duration_seconds, policy.max_samples_per_clip) == (30, 480_000)
    assert policy.max_encoded_bytes_per_clip == 67_108_864
    assert policy.max_encoded_bytes_per_request == 67_108_864
    assert policy.max_clips == 16
    assert policy.max_source_samples_per_request == 5_760_000
    assert policy.max_normalized_samples_per_request == 480_000
    assert policy.max_source_duration_micros_per_request == 30_000_000
    assert (policy.frame_length, policy.frame_hop) == (513, 160)
    assert (policy.max_frames_per_clip, policy.max_frames_per_request) == (2_997, 2_997)
    assert policy.max_waveform_result_bytes_per_request == 2_097_152
    assert policy.max_waveform_working_bytes_per_request == 33_554_432
    assert policy.max_prepared_result_bytes_per_request == 67_108_864
    assert (policy.family, policy.dtype, policy.channels) == ("gemma3n", "f32", 1)
    assert (policy.resampling, policy.soft_tokens_per_clip) == ("linear", 188)


@pytest.mark.parametrize(
    "path",
    [
        "audio_processor.sampling_rate",
        "audio_processor.sample_rate",
        "feature_extractor.sampling_rate",
        "sampling_rate",
    ],
)
def test_4_1_rate_paths(path):
    assert derived(nested(path, 16_000)).source == "model processor config"
    assert reason(nested(path, 24_000)) == INCOMPATIBLE
    assert reason(config=nested(path, 24_000)) == INCOMPATIBLE


@pytest.mark.parametrize(
    "path",
    ["audio_processor.max_audio_samples", "feature_extractor.max_length", "max_audio_samples"],
)
def test_4_1_sample_paths(path):
    policy = derived(nested(path, 160_000))
    assert (policy.max_samples_per_clip, policy.max_duration_seconds) == (160_000, 10)
    assert policy.max_frames_per_clip == (160_000 - 513) // 160 + 1
    assert policy.source == "model processor config"


SECONDS = [
    group + key
    for group in ("audio_processor.", "feature_extractor.", "")
    for key in ("max_audio_duration", "max_duration_seconds")
]


@pytest.mark.parametrize("path", SECONDS)
def test_4_1_second_paths(path):
    policy = derived(nested(path, 5))
    assert (policy.max_samples_per_clip, policy.max_duration_seconds) == (80_000, 5)
    text = "max audio duration must be positive and no larger than the pinned family maximum"
    assert reason(nested(path, 31)) == text
    assert reason(nested(path, 0)) == text
    assert derived(nested(path, 1_800), family=Family.PHI4MM).max_duration_seconds == 1_800


def test_4_1_the_shorter_of_samples_and_seconds_holds():
    both = {"max_audio_samples": 48_000, "max_audio_duration": 5}
    assert derived(both).max_samples_per_clip == 48_000
    both = {"max_audio_samples": 160_000, "max_audio_duration": 5}
    assert derived(both).max_samples_per_clip == 80_000


def test_4_2_seconds_are_rounded_up():
    assert derived({"max_audio_samples": 16_001}).max_duration_seconds == 2


@pytest.mark.parametrize("key", BOUNDS)
def test_4_1_bounds_may_be_lowered(key):
    policy = derived(nested(f"mlxcel_audio_limits.{key}", 9))
    assert getattr(policy, field(key)) == 9
    assert derived(config=nested(f"mlxcel_audio_limits.{key}", 9)) == policy


def test_4_2_request_bounds_are_not_lowered_with_those_of_a_clip():
    policy = derived({"mlxcel_audio_limits": {"max_encoded_bytes_per_clip": 9}})
    assert policy.max_encoded_bytes_per_request == 67_108_864
    policy = derived({"max_audio_samples": 16_000})
    assert policy.max_normalized_samples_per_request == 480_000
    assert policy.max_frames_per_request == 2_997


def test_4_1_the_processor_config_comes_first_item_by_item():
    processor = {"sampling_rate": 16_000, "feature_extractor": {"max_length": 32_000}}
    config = {"audio_processor": {"sampling_rate": 8_000, "max_audio_samples": 16_000}}
    assert derived(processor, config).max_samples_per_clip == 32_000
    assert reason({}, config) == INCOMPATIBLE


def test_4_1_listed_order_within_a_root():
    both = {"audio_processor": {"sampling_rate": 16_000, "sample_rate": 1}, "sampling_rate": 2}
    assert derived(both).sample_rate == 16_000


def test_4_1_a_null_is_there():
    processor = {"audio_processor": {"sampling_rate": None}, "sampling_rate": 16_000}
    text = "/audio_processor/sampling_rate must be a non-negative integer, got null"
    assert reason(processor, {"sampling_rate": 16_000}) == text


def test_4_1_a_group_that_is_no_object_holds_nothing():
    assert derived({"audio_processor": [1], "feature_extractor": "x"}) == PINNED[Family.GEMMA3N]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (16_000.0, "number outside the accepted integer range"),
        (-1, "number outside the accepted integer range"),
        (1 << 64, "number outside the accepted integer range"),
        ("16000", "string"),
        ([16_000], "array"),
        ({"a": 1}, "object"),
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "feature_extractor.sampling_rate",
        "max_audio_samples",
        "max_audio_duration",
        "mlxcel_audio_limits.max_clips",
        "audio_processor.frame_length_samples",
        "feature_extractor.hop_length",
        "audio_processor.channels",
    ],
)
def test_4_2_numbers_of_the_wrong_type(path, value, kind):
    pointer = "/" + path.replace(".", "/")
    text = f"{pointer} must be a non-negative integer, got {kind}"
    assert reason(nested(path, value)) == text


@pytest.mark.parametrize("key", BOUNDS)
def test_4_2_every_bound_has_a_type(key):
    pointer = f"/mlxcel_audio_limits/{key}"
    text = f"{pointer} must be a non-negative integer, got string"
    assert reason(nested(f"mlxcel_audio_limits.{key}", "9")) == text


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (False, "boolean"),
        (1, "number"),
        (1.5, "number"),
        ([], "array"),
        ({}, "object"),
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "audio_processor.dtype",
        "feature_extractor.dtype",
        "mlxcel_audio_limits.resampling_algorithm",
    ],
)
def test_4_2_strings_of_the_wrong_type(path, value, kind):
    pointer = "/" + path.replace(".", "/")
    assert reason(nested(path, value)) == f"{pointer} must be a string, got {kind}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sampling_rate", 1 << 32),
        ("max_audio_duration", 1 << 32),
        ("mlxcel_audio_limits.maximum_source_sample_rate", 1 << 32),
        ("audio_processor.channels", 1 << 16),
        ("audio_processor.frame_length_samples", 1 << 32),
        ("feature_extractor.hop_length", 1 << 32),
    ],
)
def test_4_1_numbers_too_large_for_their_field_overflow(path, value):
    with pytest.raises(WaveformError) as caught:
        derived(nested(path, value))
    pointer = "/" + path.replace(".", "/")
    text = f"audio size calculation overflowed while computing {pointer}"
    assert str(caught.value) == text


@pytest.mark.parametrize("path", ["audio_processor.dtype", "feature_extractor.dtype"])
def test_4_2_dtype(path):
    assert derived(nested(path, "f32")).dtype == "f32"
    for value in ("float32", "F32", "bf16", ""):
        assert reason(nested(path, value)) == "only f32 waveform dtype is supported"


def test_4_2_resampling_algorithm():
    path = "mlxcel_audio_limits.resampling_algorithm"
    phi, text = "scipy_polyphase_integer", "resampling algorithm does not match the pinned"
    assert derived(nested(path, "linear")).resampling == "linear"
    assert derived(nested(path, phi), family=Family.PHI4MM).resampling == phi
    for family, value in (
        (Family.PHI4MM, "linear"),
        (Family.GEMMA3N, phi),
        (Family.PHI4MM, "native"),
    ):
        assert reason(nested(path, value), family=family) == f"{text} family frontend"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("audio_processor.channels", 2),
        ("feature_extractor.channels", 0),
        ("max_audio_samples", 0),
        ("audio_processor.frame_length_samples", 0),
        ("feature_extractor.frame_length", 400),
        ("audio_processor.frame_hop_samples", 0),
        ("feature_extractor.hop_length", 161),
        *((f"mlxcel_audio_limits.{key}", 0) for key in BOUNDS),
    ],
)
def test_4_2_incompatible_policies(path, value):
    assert reason(nested(path, value)) == INCOMPATIBLE


def test_4_2_a_maximum_rate_below_the_minimum():
    path = "mlxcel_audio_limits.maximum_source_sample_rate"
    assert reason(nested(path, 7_999), family=Family.PHI4MM) == INCOMPATIBLE


@pytest.mark.parametrize(
    ("family", "length"), [(Family.PHI4MM, 400), (Family.GEMMA3N, 512), (Family.GEMMA3N, 513)]
)
def test_4_1_the_frontend_shapes_that_published_checkpoints_name(family, length):
    shape = {"feature_extractor": {"frame_length": length, "hop_length": 160, "channels": 1}}
    assert derived(shape, family=family).frame_length == length


def test_4_2_sample_cap_beyond_the_family():
    text = "loaded audio sample cap exceeds the pinned family duration"
    assert reason({"max_audio_samples": 480_001}) == text
    assert derived({"max_audio_samples": 480_000}) == derived({"sampling_rate": 16_000})
    assert reason({"max_audio_samples": 28_800_001}, family=Family.PHI4MM) == text


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("max_encoded_bytes_per_clip", "per-clip encoded byte cap"),
        ("max_clips", "clip cap"),
        ("maximum_source_sample_rate", "maximum source sample rate"),
        ("max_encoded_bytes_per_request", "request encoded byte cap"),
        ("max_source_samples_per_request", "request source sample cap"),
        ("max_normalized_samples_per_request", "request normalized sample cap"),
        ("max_source_duration_micros_per_request", "request source duration cap"),
        ("max_frames_per_request", "request feature frame cap"),
        ("max_waveform_result_bytes_per_request", "waveform result byte cap"),
        ("max_waveform_working_bytes_per_request", "waveform working byte cap"),
        ("max_prepared_result_bytes_per_request", "prepared result byte cap"),
    ],
)
def test_4_2_no_bound_may_be_raised(family, key, name):
    most = getattr(PINNED[family], field(key))
    path = f"mlxcel_audio_limits.{key}"
    assert getattr(derived(nested(path, most), family=family), field(key)) == most
    text = f"{name} cannot exceed the pinned family maximum"
    assert reason(nested(path, most + 1), family=family) == text


def test_4_2_maxima_are_compared_in_the_documented_order():
    names = {
        "max_encoded_bytes_per_clip": "per-clip encoded byte cap",
        "max_clips": "clip cap",
        "maximum_source_sample_rate": "maximum source sample rate",
        "max_encoded_bytes_per_request": "request encoded byte cap",
        "max_source_samples_per_request": "request source sample cap",
        "max_normalized_samples_per_request": "request normalized sample cap",
        "max_source_duration_micros_per_request": "request source duration cap",
        "max_frames_per_request": "request feature frame cap",
        "max_waveform_result_bytes_per_request": "waveform result byte cap",
        "max_waveform_working_bytes_per_request": "waveform working byte cap",
        "max_prepared_result_bytes_per_request": "prepared result byte cap",
    }
    raised = {key: getattr(PINNED[Family.GEMMA3N], field(key)) + 1 for key in names}
    too_long = {"max_audio_samples": 480_001, "mlxcel_audio_limits": raised}
    assert reason(too_long) == "loaded audio sample cap exceeds the pinned family duration"
    for key, name in names.items():
        text = f"{name} cannot exceed the pinned family maximum"
        assert reason({"mlxcel_audio_limits": raised}) == text
        del raised[key]


def test_4_2_the_first_fault_in_reading_order_is_named():
    faults = {
        "sampling_rate": 24_000,
        "audio_processor": {"dtype": "f16", "channels": "x"},
        "mlxcel_audio_limits": {"max_clips": 99, "resampling_algorithm": "x"},
    }
    assert reason(faults) == "/audio_processor/channels must be a non-negative integer, got string"
    del faults["audio_processor"]["channels"]
    assert reason(faults) == "only f32 waveform dtype is supported"
    del faults["audio_processor"]
    assert "resampling algorithm" in reason(faults)
    del faults["mlxcel_audio_limits"]["resampling_algorithm"]
    assert reason(faults) == INCOMPATIBLE
    del faults["sampling_rate"]
    assert reason(faults) == "clip cap cannot exceed the pinned family maximum"


def test_4_1_files_of_a_checkpoint(tmp_path):
    assert load_policy(Family.GEMMA3N, tmp_path) == PINNED[Family.GEMMA3N]
    (tmp_path / "config.json").write_text(json.dumps({"max_audio_duration": 20}))
    assert load_policy(Family.GEMMA3N, tmp_path).max_duration_seconds == 20
    (tmp_path / "processor_config.json").write_text(json.dumps({"max_audio_duration": 10}))
    assert load_policy(Family.GEMMA3N, tmp_path).max_duration_seconds == 10
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"max_audio_duration": 5}))
    assert load_policy(Family.GEMMA3N, tmp_path).max_duration_seconds == 5
    (tmp_path / "preprocessor_config.json").write_text("{")
    assert load_policy(Family.GEMMA3N, tmp_path).max_duration_seconds == 10


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_4_1_files_that_cannot_be_read_are_named(tmp_path, text):
    (tmp_path / "processor_config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(WaveformError, match=r"invalid loaded audio processor config: processor_"):
        load_policy(Family.GEMMA3N, tmp_path)
