from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from app.clock import now
from app.db import queries
from app.jobs import lifecycle, sweep
from app.jobs.services import Services
from app.states import JobState, Lane
from app.storage import StorageError
from models.base import InputRejected
from tasks import attempt as attempt_module
from tasks.attempt import Interrupted
from tests.inprocess import add_job, get_job


def raising(error: BaseException) -> Callable[[], None]:
    def before() -> None:
        raise error

    return before


def error_code(services: Services, job_id: str) -> str:
    error = get_job(services, job_id).error
    assert error is not None
    return str(error["code"])


@pytest.fixture
def services(open_services: Callable[..., Services]) -> Services:
    return open_services(window_batch=1)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "RETRY_SECONDS", 0.0)


def test_speech_is_stored_and_measured(services, make_runner, provider) -> None:
    job = add_job(services, options={"input": "One. Two."})
    make_runner(services).run(job.id)
    done = get_job(services, job.id)
    assert (done.state, done.model) == (JobState.SUCCEEDED, "stub")
    assert done.metrics is not None
    assert done.metrics["audio_seconds"] == pytest.approx(0.02)
    with services.store.open(done.output_key) as file:
        assert len(file.read()) == done.output_bytes == 44 + 2 * 320


def test_a_second_delivery_does_nothing(services, make_runner, provider) -> None:
    job = add_job(services, options={"input": "Once."})
    runner = make_runner(services)
    runner.run(job.id)
    runner.run(job.id)
    assert provider.said == ["Once"]


def test_a_later_attempt_does_only_the_rest(services, make_runner, provider, add_recording) -> None:
    job = add_recording(services, 100.0)
    runner = make_runner(services)

    def stop_at_the_third() -> None:
        if len(provider.heard) == 2:
            runner.draining.set()

    provider.before = stop_at_the_third
    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.QUEUED
    first = list(provider.heard)
    provider.before = lambda: None
    make_runner(services, "wkr_2").run(job.id)
    done = get_job(services, job.id)
    assert (done.state, done.attempt, done.losses) == (JobState.SUCCEEDED, 2, 0)
    assert len(first) == 3
    assert sum(provider.heard) == 100 * 16_000
    with services.store.open(done.output_key) as file:
        text = json.load(file)["text"]
    assert text == " ".join(str(length) for length in provider.heard)


def test_windows_of_another_model_are_not_used(
    services, make_runner, provider, add_recording
) -> None:
    job = add_recording(services, 70.0)
    runner = make_runner(services)
    provider.before = runner.draining.set
    runner.run(job.id)
    other = type(provider)("another")
    make_runner(services, "wkr_2", transcription=other).run(job.id)
    assert sum(other.heard) == 70 * 16_000


def test_a_waiting_caller_comes_first_but_only_after_some_work(
    services, make_runner, provider, add_recording
) -> None:
    job = add_recording(services, 100.0, lane=Lane.BULK)
    caller = add_job(services, sync=True, options={"input": "Now."})
    runner = make_runner(services)
    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.QUEUED
    assert len(provider.heard) == 1
    runner.run(job.id)
    assert len(provider.heard) == 2  # it got on, although the caller still waits
    runner.run(caller.id)
    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.SUCCEEDED


def test_no_room_is_made_when_another_worker_is_idle(
    services, make_runner, provider, add_recording
) -> None:
    job = add_recording(services, 70.0)
    add_job(services, sync=True, options={"input": "Now."})
    make_runner(services, "wkr_idle")
    make_runner(services).run(job.id)
    assert get_job(services, job.id).state is JobState.SUCCEEDED


def test_a_cancelled_job_stops_at_its_next_checkpoint(
    services, make_runner, provider, add_recording
) -> None:
    job = add_recording(services, 100.0)
    provider.before = lambda: lifecycle.cancel(services, job.id)
    make_runner(services).run(job.id)
    assert get_job(services, job.id).state is JobState.CANCELLED
    assert len(provider.heard) == 1


def test_an_attempt_that_lost_its_lease_stops_and_leaves_nothing(
    services, make_runner, provider, add_recording
) -> None:
    job = add_recording(services, 20.0)

    def overtaken() -> None:
        later = now() + timedelta(hours=1)
        sweep.recover(services, later)
        lifecycle.claim(services, job.id, "wkr_2")

    provider.before = overtaken
    make_runner(services).run(job.id)
    held = get_job(services, job.id)
    assert (held.state, held.worker, held.attempt) == (JobState.RUNNING, "wkr_2", 2)
    assert list(services.store.list("out/")) == []


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (RuntimeError("weights of sand"), ("model_failed", 500)),
        (InputRejected("not a word"), ("rejected", 400)),
        (MemoryError(), ("model_failed", 500)),
    ],
)
def test_a_fault_of_model_or_input_is_the_job_s_error(
    services, make_runner, provider, error, wanted
) -> None:
    job = add_job(services, options={"input": "Fail."})
    provider.before = raising(error)
    make_runner(services).run(job.id)
    failed = get_job(services, job.id)
    assert failed.state is JobState.FAILED
    assert (failed.error["code"], failed.error["status"]) == wanted


def test_the_reason_of_a_failure_is_told_without_paths_or_secrets(
    services, make_runner, provider
) -> None:
    job = add_job(services, options={"input": "Fail."})
    reason = "cannot read /root/models/base/model.npz\n  File '/srv/x.py', line 3"
    provider.before = raising(RuntimeError(reason))
    with capture_logs() as logs:
        make_runner(services).run(job.id)
    told = get_job(services, job.id).error["message"]
    assert told == "audio model inference failed: cannot read …/model.npz"
    assert "model_failed" in [log["event"] for log in logs]


@pytest.mark.parametrize("error", [StorageError("away"), OSError(28, "No space left on device")])
def test_a_fault_of_the_store_is_not(services, make_runner, provider, error) -> None:
    job = add_job(services, options={"input": "Later."})
    provider.before = raising(error)
    make_runner(services).run(job.id)
    back = get_job(services, job.id)
    assert (back.state, back.faults, back.last_loss) == (JobState.QUEUED, 1, "storage_failed")


def test_a_missing_recording_is_told_as_such(services, make_runner, add_recording) -> None:
    job = add_recording(services, 1.0)
    services.store.delete(job.input_key)
    make_runner(services).run(job.id)
    assert get_job(services, job.id).error["status"] == 410


def test_a_database_that_is_away_for_a_moment_is_waited_for(
    services, make_runner, provider, add_recording, monkeypatch
) -> None:
    job = add_recording(services, 70.0)
    checkpoint, failures = queries.checkpoint, iter([True, True])

    def flaky(*args, **kwargs):
        if next(failures, False):
            raise OperationalError("UPDATE", {}, Exception("database is locked"))
        return checkpoint(*args, **kwargs)

    monkeypatch.setattr(queries, "checkpoint", flaky)
    make_runner(services).run(job.id)
    done = get_job(services, job.id)
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 1)


def test_a_database_that_stays_away_ends_the_attempt_not_the_worker(
    open_services, make_runner, provider, add_recording, monkeypatch
) -> None:
    services = open_services(window_batch=1, lease_seconds=0.001)
    job = add_recording(services, 70.0)

    def broken(*_: object, **__: object):
        raise OperationalError("UPDATE", {}, Exception("gone"))

    monkeypatch.setattr(queries, "checkpoint", broken)
    make_runner(services).run(job.id)
    back = get_job(services, job.id)
    assert (back.state, back.last_loss) == (JobState.QUEUED, "database_failed")


def test_an_interrupt_gives_the_job_back_at_once(services, make_runner, provider) -> None:
    job = add_job(services, options={"input": "Stop."})
    provider.before = raising(Interrupted())
    runner = make_runner(services)
    runner.run(job.id)
    back = get_job(services, job.id)
    assert (back.state, back.losses, runner.current) == (JobState.QUEUED, 0, None)


def test_inputs_are_dropped_at_success_when_so_set(
    open_services, make_runner, add_recording
) -> None:
    services = open_services(keep_inputs=False)
    job = add_recording(services, 1.0)
    make_runner(services).run(job.id)
    assert get_job(services, job.id).input_key is None
    assert list(services.store.list("in/")) == []


def test_nothing_to_say_is_the_request_s_fault(services, make_runner) -> None:
    job = add_job(services, options={"input": "..."})
    make_runner(services).run(job.id)
    assert error_code(services, job.id) == "rejected"
