from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.clock import now
from app.db import queries
from app.db.tables import jobs
from app.states import JobState, Lane
from tasks.attempt import Interrupted
from tests.inprocess import get_job


class Batching:
    """A model for which one call with several windows is worth it; it keeps what it was given."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.info = replace(inner.info, batches=True)
        self.sample_rate, self.window_seconds = inner.sample_rate, inner.window_seconds
        self.calls: list[int] = []
        self.languages: list[bool] = []
        self.before = lambda _windows: None

    def transcribe(self, windows, options):
        self.calls.append(len(windows))
        self.languages.append(options.one_language)
        self.before(windows)
        return self.inner.transcribe(windows, options)


@pytest.fixture
def batching(provider) -> Batching:
    return Batching(provider)


@pytest.fixture
def runner(services, make_runner, batching):
    return make_runner(services, transcription=batching, translation=batching)


@pytest.fixture
def add(services, add_recording):
    """A short recording of the bulk lane; each lasts another time."""

    def build(seconds: float, **values):
        return add_recording(services, seconds, lane=Lane.BULK, input_sha256=f"{seconds}", **values)

    return build


def states(services, jobs) -> list[JobState]:
    return [get_job(services, job.id).state for job in jobs]


def test_short_recordings_are_heard_in_one_call(services, runner, batching, add) -> None:
    jobs = [add(1.0 + i) for i in range(3)]
    runner.run(jobs[0].id)
    assert (batching.calls, batching.languages) == ([3], [False])
    for job in jobs:
        done = get_job(services, job.id)
        assert (done.state, done.attempt, done.worker) == (JobState.SUCCEEDED, 1, "wkr_1")
        with services.store.open(done.output_key) as file:
            assert str(int(job.input_seconds * 16_000)).encode() in file.read()
        assert 0 < done.metrics["model_seconds"] < done.metrics["run_seconds"]
        assert done.metrics["audio_seconds"] == pytest.approx(job.input_seconds)
    runner.run(jobs[1].id)  # its message comes all the same
    assert batching.calls == [3]
    assert runner.current is None


def test_no_more_go_together_than_a_batch_holds(
    open_services, make_runner, batching, add_recording
):
    services = open_services(window_batch=2)
    jobs = [add_recording(services, 1.0 + i, lane=Lane.BULK, input_sha256=str(i)) for i in range(3)]
    make_runner(services, transcription=batching).run(jobs[0].id)
    assert batching.calls == [2]
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.QUEUED]


def test_workers_share_what_waits(services, make_runner, batching, add) -> None:
    jobs = [add(1.0 + i) for i in range(4)]
    make_runner(services, "wkr_2")
    make_runner(services, transcription=batching).run(jobs[0].id)
    assert batching.calls == [2]
    assert states(services, jobs[2:]) == [JobState.QUEUED] * 2


def test_only_its_like_is_taken_along(services, runner, batching, add, add_recording) -> None:
    first = add(1.0)
    others = [
        add(2.0, options={"language": "de"}),
        add_recording(services, 3.0),  # of the interactive lane
        add(31.0),
        add(4.0, attempt=1),
        add(5.0, run_after=now() + timedelta(hours=1)),
    ]
    runner.run(first.id)
    assert batching.calls == [1]
    assert states(services, others) == [JobState.QUEUED] * 5


def test_one_that_is_longer_than_its_header_told_is_heard_by_itself(
    services, runner, batching, add, add_recording
) -> None:
    long = add_recording(
        services, 300.0, lane=Lane.BULK, input_sha256="long", created_at=now() + timedelta(hours=1)
    )
    with services.database.writing() as connection:
        connection.execute(jobs.update().where(jobs.c.id == long.id).values(input_seconds=3.0))
    short = [add(1.0), add(2.0)]
    runner.run(short[0].id)
    assert batching.calls[0] == 2
    assert states(services, [*short, long]) == [JobState.SUCCEEDED] * 3
    assert get_job(services, long.id).metrics["audio_seconds"] == pytest.approx(300.0)


def test_a_model_that_gains_nothing_hears_one_by_one(services, make_runner, provider, add) -> None:
    jobs = [add(1.0), add(2.0)]
    make_runner(services).run(jobs[0].id)
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.QUEUED]


def test_a_broken_recording_fails_alone(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0), add(3.0)]
    with services.store.open(jobs[1].input_key) as file:
        data = file.read()
    assert data
    services.store.delete(jobs[1].input_key)
    runner.run(jobs[0].id)
    assert batching.calls == [2]
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.FAILED, JobState.SUCCEEDED]
    assert get_job(services, jobs[1].id).error["status"] == 410


def test_a_fault_in_the_call_is_the_fault_of_one(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0), add(3.0)]

    def fail_on_the_second(windows) -> None:
        if any(len(window) == 32_000 for window in windows):
            raise RuntimeError("bad window")

    batching.before = fail_on_the_second
    runner.run(jobs[0].id)
    assert batching.calls == [3, 1, 1, 1]
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.FAILED, JobState.SUCCEEDED]


def test_what_is_interrupted_goes_back_whole(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0), add(3.0)]

    def interrupt(_windows) -> None:
        raise Interrupted

    batching.before = interrupt
    runner.run(jobs[0].id)
    assert states(services, jobs) == [JobState.QUEUED] * 3
    assert [get_job(services, job.id).losses for job in jobs] == [0, 0, 0]
    assert runner.current is None


def test_a_second_attempt_is_alone(services, runner, batching, add) -> None:
    jobs = [add(1.0, attempt=1), add(2.0)]
    runner.run(jobs[0].id)
    assert batching.calls == [1]
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.QUEUED]


def test_the_same_recording_is_heard_once(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0), add(1.0)]
    runner.run(jobs[0].id)
    assert batching.calls == [2]
    assert states(services, jobs) == [JobState.SUCCEEDED] * 3
    assert get_job(services, jobs[2].id).metrics["reused"] == 1.0


def test_one_that_is_cancelled_meanwhile_stays_cancelled(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0)]

    def cancel(_windows) -> None:
        with services.database.writing() as connection:
            assert queries.request_cancel(connection, jobs[1].id)

    batching.before = cancel
    runner.run(jobs[0].id)
    assert states(services, jobs) == [JobState.SUCCEEDED, JobState.CANCELLED]


def test_the_leases_of_all_are_renewed(services, runner, batching, add) -> None:
    jobs = [add(1.0), add(2.0), add(3.0)]
    ends: list[list] = []

    def renew(_windows) -> None:
        ends.append([get_job(services, job.id).lease_expires_at for job in jobs])
        assert runner.current.renew()
        ends.append([get_job(services, job.id).lease_expires_at for job in jobs])

    batching.before = renew
    with capture_logs() as logs:
        runner.run(jobs[0].id)
    assert all(after > before for before, after in zip(*ends, strict=True))
    assert {"event": "heard_together", "jobs": 3, "log_level": "info"} in logs
