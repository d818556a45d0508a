"""Section 5.4: names, labels and numbers of the metrics."""

from __future__ import annotations

import re

from models.preprocess.metrics import AudioMetrics, Rejection

COUNTERS = [
    "mlxcel_audio_source_seconds_total",
    "mlxcel_audio_source_samples_total",
    "mlxcel_audio_normalized_samples_total",
    "mlxcel_audio_feature_frames_total",
    "mlxcel_audio_effective_tokens_total",
    "mlxcel_audio_effective_prefill_tokens_total",
    "mlxcel_audio_preprocess_latency_seconds_total",
    "mlxcel_audio_preprocess_cancelled_total",
    "mlxcel_audio_preprocess_rejections_total",
]
GAUGES = ["mlxcel_audio_preprocess_queued_bytes", "mlxcel_audio_preprocess_inflight_host_bytes"]
REASONS = [
    "queue_full",
    "memory_limit",
    "worker_unavailable",
    "overflow",
    "waveform",
    "feature",
    "feature_panic",
    "context_limit",
]


def values(metrics: AudioMetrics) -> dict[str, str]:
    lines = metrics.render().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_5_4_every_series_has_help_and_type():
    text = AudioMetrics().render()
    for name, kind in [(n, "counter") for n in COUNTERS] + [(n, "gauge") for n in GAUGES]:
        assert re.search(rf"^# HELP {name} \S.*$", text, re.MULTILINE)
        assert f"# TYPE {name} {kind}\n" in text
    assert text.count("# TYPE") == len(COUNTERS) + len(GAUGES)
    assert text.endswith("\n")


def test_5_4_every_reason_is_always_there_in_order():
    text = AudioMetrics().render()
    assert re.findall(r'rejections_total\{reason="(\w+)"\} 0\n', text) == REASONS
    assert [reason.value for reason in Rejection] == REASONS
    assert "all" not in REASONS


def test_5_4_new_counters_are_zero():
    found = values(AudioMetrics())
    assert found.pop("mlxcel_audio_source_seconds_total") == "0.000000"
    assert found.pop("mlxcel_audio_preprocess_latency_seconds_total") == "0.000000"
    assert set(found.values()) == {"0"}


def test_5_4_a_batch_is_counted(silence, prepared):
    metrics = AudioMetrics()
    batch = prepared(silence(800, rate=8_000))
    metrics.count_waveform(batch)
    found = values(metrics)
    assert found["mlxcel_audio_source_seconds_total"] == "0.100000"
    assert found["mlxcel_audio_source_samples_total"] == "800"
    assert found["mlxcel_audio_normalized_samples_total"] == "1600"
    assert found["mlxcel_audio_feature_frames_total"] == "8"
    assert found["mlxcel_audio_effective_tokens_total"] == "188"
    assert found["mlxcel_audio_effective_prefill_tokens_total"] == "0"
    metrics.count_waveform(batch)
    assert values(metrics)["mlxcel_audio_source_seconds_total"] == "0.200000"


def test_5_4_one_reason_at_a_time():
    metrics = AudioMetrics()
    metrics.count_rejected(Rejection.FEATURE)
    found = values(metrics)
    changed = {name for name, value in found.items() if value == "1"}
    assert changed == {'mlxcel_audio_preprocess_rejections_total{reason="feature"}'}


def test_5_2_latency_is_a_microsecond_at_least():
    metrics = AudioMetrics()
    metrics.count_latency(0.0)
    assert values(metrics)["mlxcel_audio_preprocess_latency_seconds_total"] == "0.000001"
    metrics.count_latency(1.5)
    assert values(metrics)["mlxcel_audio_preprocess_latency_seconds_total"] == "1.500001"


def test_5_4_gauges_show_what_is_reserved():
    metrics = AudioMetrics()
    metrics.set_reserved(encoded_bytes=7, host_bytes=9)
    found = values(metrics)
    assert [found[name] for name in GAUGES] == ["7", "9"]
