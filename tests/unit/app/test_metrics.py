from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app import metrics as metrics_module
from app.clock import now
from app.db import queries
from app.db.records import Job, Worker
from app.jobs.services import Services
from app.metrics import Metrics
from app.states import JobState, Kind, Lane
from tests import inprocess


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    services = inprocess.make_services(tmp_path)
    yield services
    inprocess.close(services)


def put(services: Services, state: JobState, **values: Any) -> None:
    job = Job(
        **{
            "id": f"job_{len(str(values))}_{state}_{values.get('kind', '')}",
            "kind": Kind.SPEECH,
            "lane": Lane.INTERACTIVE,
            "state": state,
            "created_at": now() - timedelta(seconds=30),
            **values,
        }
    )
    with services.database.writing() as connection:
        queries.insert_job(connection, job)


def show(metrics: Metrics, services: Services) -> dict[str, float]:
    text = metrics.render(services.database, services.settings).decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_are_counted_by_route_and_status(services: Services) -> None:
    metrics = Metrics()
    metrics.answered("GET", "/v1/jobs/{job_id}", 404, 0.02)
    found = show(metrics, services)
    labels = 'method="GET",route="/v1/jobs/{job_id}"'
    assert found[f'voxqueue_requests_total{{{labels},status="404"}}'] == 1
    assert found[f'voxqueue_request_seconds_bucket{{le="0.025",{labels}}}'] == 1
    assert found[f'voxqueue_request_seconds_bucket{{le="0.01",{labels}}}'] == 0


def test_a_registry_is_of_one_front_door_only(services: Services) -> None:
    Metrics().answered("GET", "/health", 200, 0.0)
    assert not any("/health" in name for name in show(Metrics(), services))


def test_waiting_jobs_and_their_age(services: Services) -> None:
    put(services, JobState.QUEUED, created_at=now() - timedelta(seconds=100))
    put(services, JobState.QUEUED, created_at=now(), kind=Kind.TRANSCRIPTION)
    found = show(Metrics(), services)
    labels = '{capability="tts",lane="interactive",state="queued"}'
    assert found[f"voxqueue_jobs{labels}"] == 1
    assert found[f"voxqueue_jobs_oldest_seconds{labels}"] == pytest.approx(100, abs=5)


def test_an_empty_queue_is_a_0(services: Services) -> None:
    found = show(Metrics(), services)
    for name in ("voxqueue_jobs", "voxqueue_jobs_oldest_seconds"):
        for state in ("queued", "running"):
            assert found[f'{name}{{capability="stt",lane="bulk",state="{state}"}}'] == 0
    assert found['voxqueue_webhook_deliveries{state="pending"}'] == 0


def test_finished_jobs_are_counted_once(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    ended = now()
    put(
        services,
        JobState.SUCCEEDED,
        started_at=ended - timedelta(seconds=10),
        finished_at=ended,
        attempt=3,
        metrics={"run_seconds": 8.0, "audio_seconds": 40.0, "helped_seconds": 15.0},
    )
    put(services, JobState.FAILED, finished_at=ended, kind=Kind.TRANSLATION)
    put(services, JobState.SUCCEEDED, finished_at=ended - timedelta(days=1), metrics={})
    monkeypatch.setattr(metrics_module, "now", lambda: ended + timedelta(seconds=60))
    show(metrics, services)
    found = show(metrics, services)
    speech = '{kind="speech"}'
    assert found['voxqueue_jobs_finished_total{kind="speech",state="succeeded"}'] == 1
    assert found['voxqueue_jobs_finished_total{kind="translation",state="failed"}'] == 1
    assert found[f"voxqueue_job_redeliveries_total{speech}"] == 2
    assert found[f"voxqueue_job_wait_seconds_sum{speech}"] == pytest.approx(20, abs=1)
    assert found[f"voxqueue_job_run_seconds_sum{speech}"] == 8
    assert found[f"voxqueue_audio_seconds_total{speech}"] == 40
    assert found[f"voxqueue_helped_audio_seconds_total{speech}"] == 15
    assert found['voxqueue_real_time_factor_bucket{kind="speech",le="0.2"}'] == 1


def test_the_age_of_a_lease(services: Services) -> None:
    settings = services.settings
    ends = now() + timedelta(seconds=settings.lease_seconds - 7)
    put(services, JobState.RUNNING, attempt=1, lease_expires_at=ends)
    found = show(Metrics(), services)
    assert found["voxqueue_lease_age_seconds"] == pytest.approx(7, abs=2)


def test_memory_of_workers(services: Services) -> None:
    worker = Worker(
        id="wkr_1",
        host="h",
        pid=1,
        state="ready",
        started_at=now(),
        seen_at=now(),
        memory={"resident": 5, "cache": 3},
    )
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)
    found = show(Metrics(), services)
    assert found['voxqueue_worker_memory_bytes{of="cache",worker="wkr_1"}'] == 3


def test_requests_are_told_when_the_database_is_away(services: Services) -> None:
    metrics = Metrics()
    metrics.answered("GET", "/health", 200, 0.0)
    with services.database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE deliveries")
    assert any(name.startswith("voxqueue_requests_total") for name in show(metrics, services))


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


def put_worker(services: Services, name: str, **counts: int) -> None:
    worker = Worker(
        id=name,
        host="h",
        pid=1,
        state="ready",
        started_at=now(),
        seen_at=now(),
        audio_counts={
            "preprocess_queued_bytes": 0,
            "preprocess_inflight_host_bytes": 0,
            **counts,
        },
    )
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)


def test_5_4_without_a_chat_model_every_number_is_there_and_0(services: Services) -> None:
    found = show(Metrics(), services)
    for reason in REASONS:
        assert found[f'mlxcel_audio_preprocess_rejections_total{{reason="{reason}"}}'] == 0
    own = [name for name in found if name.startswith("mlxcel_")]
    assert (len(own), len(set(own))) == (18, 18)


def test_5_4_numbers_are_summed_over_workers_and_never_fall(services: Services) -> None:
    metrics = Metrics()
    put_worker(services, "a", source_seconds_total=1_500_000, waveform=2)
    put_worker(services, "b", source_seconds_total=2_000_000, preprocess_queued_bytes=7)
    found = show(metrics, services)
    assert found["mlxcel_audio_source_seconds_total"] == 3.5
    assert found['mlxcel_audio_preprocess_rejections_total{reason="waveform"}'] == 2
    assert found["mlxcel_audio_preprocess_queued_bytes"] == 7
    with services.database.writing() as connection:
        queries.delete_worker(connection, "b")
    put_worker(services, "c", source_seconds_total=250_000)
    found = show(metrics, services)
    assert found["mlxcel_audio_source_seconds_total"] == 3.75
    assert found["mlxcel_audio_preprocess_queued_bytes"] == 0
