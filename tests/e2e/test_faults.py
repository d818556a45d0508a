"""Each fault for real, on real processes: no job lost, none done twice in effect, none stuck."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.states import JobState
from tests.cluster import Cluster, Front, cluster, holding, job_id, recording
from tests.harness import calls, eventually, fake_model


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Cluster]:
    with cluster(
        tmp_path_factory.mktemp("faults"), model, max_faulty_attempts=3, stuck_seconds=3.0
    ) as made:
        yield made


@pytest.fixture(scope="module")
def door(house: Cluster) -> Front:
    worker = house.start_worker()  # the front door asks for a live one before it takes a job
    front = house.start_front()
    worker.stop()
    return front


@pytest.fixture(autouse=True)
def _no_workers_left(house: Cluster) -> Iterator[None]:
    yield
    (house.model / "hold").unlink(missing_ok=True)
    house.stop_workers()


def test_a_killed_worker_s_job_goes_on_where_it_stood(
    house: Cluster, door: Front, tmp_path: Path
) -> None:
    slow = fake_model(tmp_path / "slow", seconds=0.4)
    worker = house.start_worker(VOXQUEUE_STT_MODEL=str(slow))
    job = job_id(door.hear(recording(140)))
    eventually(lambda: len(house.windows(job)) >= 2)
    worker.kill()
    kept = house.windows(job)
    house.start_worker(VOXQUEUE_STT_MODEL=str(slow))
    done = house.wait(job)
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)
    assert {number for number, attempt in house.windows(job) if attempt == 1} == {
        number for number, _ in kept
    }
    # Five windows, and at most the one again that was being heard.
    assert 5 <= len(calls(slow)) <= 6
    assert len(set(calls(slow))) <= 5
    assert [blob for blob in house.blobs() if job in blob and blob.startswith("out/")] == [
        f"out/{job}/2/transcript.json"
    ]


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGTERM], [signal.SIGQUIT], [signal.SIGINT, signal.SIGINT]],
    ids=["term", "quit", "double-interrupt"],
)
def test_a_stopped_worker_gives_its_job_back(
    house: Cluster, door: Front, tmp_path: Path, signals: list[signal.Signals]
) -> None:
    slow = fake_model(tmp_path / "slow", seconds=0.4)
    worker = house.start_worker(VOXQUEUE_STT_MODEL=str(slow))
    job = job_id(door.hear(recording(140, pitch=0.2)))
    eventually(lambda: house.windows(job))
    for number in signals:
        worker.signal(number)
        time.sleep(0.05)  # two signals at the same time are one
    assert worker.popen.wait(20) == 0
    given_back = house.job(job)
    assert (given_back.state, given_back.losses) == (JobState.QUEUED, 0)
    house.start_worker(VOXQUEUE_STT_MODEL=str(slow))
    assert house.wait(job).state is JobState.SUCCEEDED
    assert 5 <= len(calls(slow)) <= 6


def test_a_broker_that_comes_back_empty_loses_nothing(house: Cluster, door: Front) -> None:
    worker = house.start_worker()
    before = len(calls(house.model))
    with holding(house.model):
        jobs = [job_id(door.say(f"emptied {number}")) for number in range(5)]
        eventually(lambda: len(calls(house.model)) > before)
        house.empty_broker()
        jobs.append(job_id(door.say("while it is away")))
        house.start_broker()
    done = [house.wait(job) for job in jobs]
    assert {(job.state, job.attempt) for job in done} == {(JobState.SUCCEEDED, 1)}
    assert len(calls(house.model)) - before == len(jobs)
    assert worker.popen.poll() is None


@pytest.mark.one_machine("SQLite's one lock")
def test_a_locked_database_is_waited_for(house: Cluster, door: Front) -> None:
    house.start_worker()
    with holding(house.model):
        job = job_id(door.say("locked"))
        eventually(lambda: house.job(job).state is JobState.RUNNING)
        lock = sqlite3.connect(house.data / "db.sqlite", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
    time.sleep(5)  # longer than a lease
    lock.execute("ROLLBACK")
    lock.close()
    assert house.wait(job).state is JobState.SUCCEEDED
    attempt = house.job(job).attempt
    # A worker that lost its lease throws its result away once the database tells it so.
    eventually(
        lambda: (
            {blob.rpartition("/")[0] for blob in house.blobs() if blob.startswith(f"out/{job}/")}
            == {f"out/{job}/{attempt}"}
        )
    )


@pytest.mark.one_machine("a directory that is none")
def test_a_failing_store_is_tried_again_until_it_works(house: Cluster, door: Front) -> None:
    house.start_worker()
    out = house.settings.storage_dir / "out"
    aside = out.with_name("aside")
    out.rename(aside)
    out.write_text("no directory")  # nothing can be stored below it
    job = job_id(door.say("stored later"))
    eventually(lambda: house.job(job).faults)
    assert house.job(job).last_loss == "storage_failed"
    out.unlink()
    aside.rename(out)
    done = house.wait(job)
    assert (done.state, done.losses) == (JobState.SUCCEEDED, 0)
    assert done.attempt >= 2


@pytest.mark.one_machine("a directory that is none")
def test_a_store_that_keeps_failing_fails_the_job_with_the_reason(
    house: Cluster, door: Front
) -> None:
    house.start_worker()
    out = house.settings.storage_dir / "out"
    aside = out.with_name("aside")
    out.rename(aside)
    out.write_text("no directory")
    try:
        done = house.wait(job_id(door.say("stored never")))
    finally:
        out.unlink()
        aside.rename(out)
    assert (done.state, done.attempt) == (JobState.FAILED, 3)
    assert done.error is not None
    assert done.error["code"] == "storage_failed"


def test_a_worker_that_hangs_is_ended_and_its_job_given_away(house: Cluster, door: Front) -> None:
    worker = house.start_worker()
    with holding(house.model):
        job = job_id(door.say("hangs once"))
        assert worker.popen.wait(20) == -signal.SIGKILL
    house.start_worker()
    done = house.wait(job)
    assert (done.state, done.attempt, done.last_loss) == (JobState.SUCCEEDED, 2, "stuck")


def test_cancelling_stops_a_running_job_within_a_window(
    house: Cluster, door: Front, tmp_path: Path
) -> None:
    slow = fake_model(tmp_path / "slow", seconds=0.4)
    house.start_worker(VOXQUEUE_STT_MODEL=str(slow))
    job = job_id(door.hear(recording(200, pitch=0.3)))
    eventually(lambda: calls(slow))
    assert door.client.delete(f"/v1/jobs/{job}").json()["status"] == "running"
    assert house.wait(job).state is JobState.CANCELLED
    assert len(calls(slow)) <= 3
    assert door.client.delete(f"/v1/jobs/{job}").json()["status"] == "cancelled"
    assert door.client.get(f"/v1/jobs/{job}/result").status_code == 409


def test_a_cancelled_job_never_succeeds_even_in_its_last_step(house: Cluster, door: Front) -> None:
    house.start_worker()
    with holding(house.model):
        job = job_id(door.say("too late"))
        eventually(lambda: house.job(job).state is JobState.RUNNING)
        door.client.delete(f"/v1/jobs/{job}")
    assert house.wait(job).state is JobState.CANCELLED
    eventually(lambda: not [blob for blob in house.blobs() if job in blob])
