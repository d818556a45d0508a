"""Several workers on one broker, or one worker with too much to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.states import JobState
from tests import engines
from tests.cluster import cluster, holding, job_id, quiet_hour, recording
from tests.engines import Postgres
from tests.harness import Service, calls, eventually, fake_model


def test_a_message_delivered_again_while_its_task_runs_is_ignored(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "fake")
    quick = {"broker_visibility_seconds": 5, "broker_restore_seconds": 1}
    with cluster(tmp_path / "data", model, **quick) as house:
        workers = [house.start_worker(), house.start_worker()]
        front = house.start_front()
        with holding(model):
            job = job_id(front.hear(recording(20)))
            # Without this there would be nothing to see: the broker must really redeliver.
            eventually(lambda: any("delivery_ignored" in worker.text for worker in workers))
            assert house.job(job).state is JobState.RUNNING
        done = house.wait(job)
        assert (done.state, done.attempt) == (JobState.SUCCEEDED, 1)
        assert len(calls(model)) == 1


def test_an_hour_s_recording_lets_a_caller_in_between_two_groups(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "fake", seconds=0.05)
    changes = {"max_audio_seconds": 4000, "window_batch": 8}
    with cluster(tmp_path / "data", model, **changes) as house:
        house.start_worker()
        front = house.start_front()
        job = job_id(front.hear(quiet_hour()))
        eventually(lambda: calls(model))
        before = len(calls(model))
        answer = front.hear(recording(3), prefer="wait=60")
        assert answer.status_code == 200, answer.text
        # The group that was being heard, one more if that ended just then, and the caller's own.
        assert len(calls(model)) - before <= 8 + 8 + 1
        assert not house.job(job).state.final
        done = house.wait(job, 120)
        assert (done.state, done.losses) == (JobState.SUCCEEDED, 0)
        assert done.attempt > 1
        assert len(calls(model)) == 120 + 1  # no window twice


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with engines.postgres() as server:
        yield server


def test_a_database_that_is_restarted_loses_nothing(tmp_path: Path, postgres: Postgres) -> None:
    model = fake_model(tmp_path / "fake", seconds=0.2)
    with (
        postgres.database() as url,
        cluster(tmp_path / "data", model, database_url=url) as house,
    ):
        house.start_worker()
        front = house.start_front()
        jobs = [job_id(front.hear(recording(100, pitch=pitch))) for pitch in (0.1, 0.2, 0.3)]
        eventually(lambda: house.windows(jobs[0]))
        postgres.restart()
        done = [house.wait(job) for job in jobs]
        assert [job.state for job in done] == [JobState.SUCCEEDED] * 3
        assert len(set(calls(model))) >= 10
        for job in jobs:
            outputs = [blob for blob in house.blobs() if blob.startswith(f"out/{job}/")]
            assert outputs == [house.job(job).output_key]


def test_an_input_that_kills_its_worker_is_set_aside(service: Service, model: Path) -> None:
    poison = service.client.post(
        "/v1/audio/speech",
        json={"model": "m", "input": "KILL"},
        headers={"Prefer": "respond-async"},
    ).json()["id"]
    others = [
        service.client.post(
            "/v1/audio/speech",
            json={"model": "m", "input": f"good {number}"},
            headers={"Prefer": "respond-async"},
        ).json()["id"]
        for number in range(3)
    ]

    def state(job: str) -> str:
        return str(service.client.get(f"/v1/jobs/{job}").json()["status"])

    eventually(lambda: state(poison) == "failed", seconds=60)
    eventually(lambda: all(state(job) == "succeeded" for job in others))
    failed = service.client.get(f"/v1/jobs/{poison}").json()
    assert (failed["attempts"], failed["error"]["code"]) == (3, "worker_lost")
    result = service.client.get(f"/v1/jobs/{poison}/result")
    assert (result.status_code, result.json()["error"]["type"]) == (500, "server_error")
    assert calls(model).count("say KILL") == 3
