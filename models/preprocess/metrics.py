"""Counters of the waveform boundary, and their Prometheus text.

A plain object that a process keeps once and hands to its stage; counts each request once and
changes no usage that is billed. Its numbers travel as one flat dictionary, since another process
shows them. Knows no HTTP.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the front door shows these numbers, and has no use for numpy
    from models.preprocess.batch import WaveformBatch

PREFIX = "mlxcel_audio_"  # dashboards written for the documented system keep working


class Rejection(StrEnum):
    """Why a request was turned away: exactly one of these, and no cancellation."""

    QUEUE_FULL = "queue_full"
    MEMORY_LIMIT = "memory_limit"
    WORKER_UNAVAILABLE = "worker_unavailable"
    OVERFLOW = "overflow"
    WAVEFORM = "waveform"
    FEATURE = "feature"
    FEATURE_PANIC = "feature_panic"
    CONTEXT_LIMIT = "context_limit"


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    kind: str
    help: str
    micros: bool = False
    """Kept in microseconds, shown in seconds."""


_COUNTERS = (
    _Metric("source_seconds_total", "counter", "Seconds of source audio.", micros=True),
    _Metric("source_samples_total", "counter", "Sample frames of source audio."),
    _Metric("normalized_samples_total", "counter", "Samples after mono and resampling."),
    _Metric("feature_frames_total", "counter", "Feature frames of the normalized audio."),
    _Metric("effective_tokens_total", "counter", "Audio tokens inside the model."),
    _Metric("effective_prefill_tokens_total", "counter", "Positions of prepared prefills."),
    _Metric(
        "preprocess_latency_seconds_total", "counter", "Seconds of preprocessing.", micros=True
    ),
    _Metric("preprocess_cancelled_total", "counter", "Requests cancelled in preprocessing."),
)
_REJECTIONS = _Metric(
    "preprocess_rejections_total", "counter", "Requests rejected in preprocessing, by reason."
)
_GAUGES = (
    _Metric("preprocess_queued_bytes", "gauge", "Encoded bytes from admission to hand-off."),
    _Metric("preprocess_inflight_host_bytes", "gauge", "Host bytes reserved for requests."),
)
GAUGES = frozenset(metric.name for metric in _GAUGES)
"""The names of the numbers that may fall."""


class AudioMetrics:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = {metric.name: 0 for metric in (*_COUNTERS, *_GAUGES)}
        self._rejected = dict.fromkeys(Rejection, 0)

    def count_waveform(self, batch: WaveformBatch) -> None:
        self._add(
            source_seconds_total=batch.total_source_duration_micros,
            source_samples_total=batch.total_source_samples,
            normalized_samples_total=batch.total_samples,
            feature_frames_total=batch.estimated_frames,
            effective_tokens_total=batch.effective_audio_tokens,
        )

    def count_prefill(self, positions: int) -> None:
        self._add(effective_prefill_tokens_total=positions)

    def count_latency(self, seconds: float) -> None:
        self._add(preprocess_latency_seconds_total=max(1, round(seconds * 1_000_000)))

    def count_cancelled(self) -> None:
        self._add(preprocess_cancelled_total=1)

    def count_rejected(self, reason: Rejection) -> None:
        with self._lock:
            self._rejected[reason] += 1

    def set_reserved(self, *, encoded_bytes: int, host_bytes: int) -> None:
        with self._lock:
            self._values["preprocess_queued_bytes"] = encoded_bytes
            self._values["preprocess_inflight_host_bytes"] = host_bytes

    def counts(self) -> dict[str, int]:
        """Every number by its name without prefix, and every rejection by its reason."""
        with self._lock:
            return self._values | {str(reason): n for reason, n in self._rejected.items()}

    def render(self) -> str:
        return render(self.counts())

    def _add(self, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount


def render(counts: Mapping[str, int]) -> str:
    """The exposition format, one line each, ended by a newline; what is absent is 0."""
    return "".join(f"{line}\n" for line in _lines(counts))


def _lines(counts: Mapping[str, int]) -> Iterator[str]:
    for metric in _COUNTERS:
        yield from _head(metric)
        yield f"{PREFIX}{metric.name} {_shown(metric, counts)}"
    yield from _head(_REJECTIONS)
    for reason in Rejection:
        yield f'{PREFIX}{_REJECTIONS.name}{{reason="{reason}"}} {counts.get(reason, 0)}'
    for metric in _GAUGES:
        yield from _head(metric)
        yield f"{PREFIX}{metric.name} {_shown(metric, counts)}"


def _shown(metric: _Metric, counts: Mapping[str, int]) -> str:
    value = counts.get(metric.name, 0)
    return f"{value / 1_000_000:.6f}" if metric.micros else str(value)


def _head(metric: _Metric) -> tuple[str, str]:
    name = PREFIX + metric.name
    return f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"
