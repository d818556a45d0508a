from __future__ import annotations

from datetime import timedelta

import pytest

from app import broker
from app.clock import now
from app.db import queries, windows
from app.db.tables import jobs
from app.jobs import lifecycle
from app.jobs.errors import STORAGE_FAILED, WORKER_LOST
from app.jobs.services import Services
from app.states import JobState
from app.storage import StoredBlob
from tests.inprocess import add_job, get_job

BLOB = StoredBlob(key="out/x", size=3, sha256="0" * 64)


def claimed(services: Services, **values):
    job = lifecycle.claim(services, add_job(services, **values).id, "wkr_1")
    assert job is not None
    return job


def queued_messages(services: Services) -> int:
    return broker.count_messages(services.celery, "tts.interactive")


def test_only_one_of_two_workers_gets_the_job(services: Services) -> None:
    job = claimed(services)
    assert (job.state, job.attempt, job.worker) == (JobState.RUNNING, 1, "wkr_1")
    assert lifecycle.claim(services, job.id, "wkr_2") is None


def test_a_job_is_not_claimed_before_its_time_nor_after_its_deadline(services: Services) -> None:
    later = add_job(services, run_after=now() + timedelta(hours=1))
    late = add_job(services, deadline_at=now() - timedelta(seconds=1))
    begun = add_job(services, deadline_at=now() - timedelta(seconds=1), attempt=1)
    assert lifecycle.claim(services, later.id, "w") is None
    assert lifecycle.claim(services, late.id, "w") is None
    assert lifecycle.claim(services, begun.id, "w") is not None


def test_success_makes_the_output_visible_and_is_announced(services: Services) -> None:
    job = claimed(services)
    done = lifecycle.succeed(services, job, BLOB, model="m")
    assert done is not None
    assert (done.state, done.output_key, done.progress) == (JobState.SUCCEEDED, "out/x", 1.0)
    assert done.expires_at is not None
    assert services.announcer.heard == [job.id]


def test_success_can_be_repeated_when_the_answer_got_lost(services: Services) -> None:
    job = claimed(services)
    assert lifecycle.succeed(services, job, BLOB)
    again = lifecycle.succeed(services, job, BLOB)
    assert again is not None
    assert again.output_key == BLOB.key


def test_an_older_attempt_cannot_finish_fail_or_give_back(services: Services) -> None:
    old = claimed(services)
    lifecycle.hand_back(services, old)
    new = lifecycle.claim(services, old.id, "wkr_2")
    assert lifecycle.succeed(services, old, BLOB) is None
    assert lifecycle.fail(services, old, WORKER_LOST.error) is None
    assert lifecycle.hand_back(services, old) is None
    assert lifecycle.lose(services, old, WORKER_LOST) is None
    assert get_job(services, old.id) == new


def test_a_job_given_back_keeps_its_losses_and_is_rung_for(services: Services) -> None:
    job = claimed(services)
    before = queued_messages(services)
    back = lifecycle.hand_back(services, job)
    assert back is not None
    assert (back.state, back.losses, back.worker) == (JobState.QUEUED, 0, None)
    assert queued_messages(services) == before + 1


def test_losses_are_counted_until_it_is_one_too_many(services: Services) -> None:
    job = add_job(services)
    for losses in (1, 2):
        running = lifecycle.claim(services, job.id, "w")
        assert running is not None
        back = lifecycle.lose(services, running, WORKER_LOST)
        assert back is not None
        assert (back.state, back.losses) == (JobState.QUEUED, losses)
    running = lifecycle.claim(services, job.id, "w")
    assert running is not None
    failed = lifecycle.lose(services, running, WORKER_LOST)
    assert failed is not None
    assert failed.error is not None
    assert (failed.state, failed.error["code"]) == (JobState.FAILED, "worker_lost")


def test_a_failing_store_is_counted_apart_and_comes_with_a_pause(services: Services) -> None:
    job = claimed(services)
    back = lifecycle.lose(services, job, STORAGE_FAILED)
    assert back is not None
    assert (back.losses, back.faults, back.last_loss) == (0, 1, "storage_failed")
    assert back.run_after is not None
    assert back.run_after > now()
    assert back.enqueued_at is None
    assert lifecycle.claim(services, job.id, "w") is None


def test_a_finished_window_forgives_earlier_losses(services: Services) -> None:
    job = claimed(services, losses=2, faults=3, last_loss="worker_lost")
    row = queries.WindowRow(number=0, start_sample=0, end_sample=1, model="m", transcript={})
    with services.database.writing() as connection:
        kept = queries.checkpoint(connection, job, lease_until=now(), progress=0.5, finished=[row])
        bare = queries.checkpoint(connection, job, lease_until=now(), progress=0.6)
    assert kept is not None
    assert (kept.losses, kept.faults, kept.last_loss) == (0, 0, None)
    assert bare is not None


def test_a_window_of_an_attempt_that_lost_the_job_is_not_kept(services: Services) -> None:
    old = claimed(services)
    lifecycle.hand_back(services, old)
    lifecycle.claim(services, old.id, "w")
    row = queries.WindowRow(number=0, start_sample=0, end_sample=1, model="m", transcript={})
    with services.database.writing() as connection:
        kept = queries.checkpoint(connection, old, lease_until=now(), progress=0.5, finished=[row])
        assert kept is None
        assert windows.get(connection, old.id) == []


def test_cancelling_is_at_once_or_a_promise_and_idempotent(services: Services) -> None:
    queued, running = add_job(services), claimed(services)
    assert lifecycle.cancel(services, queued.id).state is JobState.CANCELLED
    asked = lifecycle.cancel(services, running.id)
    assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
    assert lifecycle.cancel(services, running.id) == asked
    assert lifecycle.succeed(services, running, BLOB) is None
    assert get_job(services, running.id).state is JobState.CANCELLED
    assert lifecycle.cancel(services, queued.id).state is JobState.CANCELLED
    assert lifecycle.cancel(services, "job_none") is None


@pytest.mark.parametrize("way", ["hand_back", "lose"])
def test_a_job_to_be_cancelled_never_goes_back_into_the_queue(services: Services, way: str) -> None:
    job = claimed(services)
    lifecycle.cancel(services, job.id)
    if way == "hand_back":
        lifecycle.hand_back(services, job)
    else:
        lifecycle.lose(services, job, WORKER_LOST)
    assert get_job(services, job.id).state is JobState.CANCELLED


def test_a_message_that_cannot_be_sent_is_left_to_the_sweeper(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object, **__: object) -> None:
        raise broker.BrokerDown("away")

    monkeypatch.setattr(broker, "send", down)
    job = claimed(services)
    lifecycle.hand_back(services, job)
    assert get_job(services, job.id).enqueued_at is None


def test_an_illegal_move_is_a_fault_of_the_program(services: Services) -> None:
    job = add_job(services)
    with services.database.writing() as connection, pytest.raises(queries.IllegalMove):
        queries.move(connection, job.id, JobState.SUCCEEDED, JobState.QUEUED)


def test_every_final_move_names_a_reason(services: Services) -> None:
    expired = add_job(services)
    assert lifecycle.expire(services, expired).error["code"] == "expired"
    with services.database.reading() as connection:
        rows = connection.execute(jobs.select()).all()
    assert all(row.error for row in rows)
