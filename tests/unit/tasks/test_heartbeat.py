from __future__ import annotations

import os
import signal
from datetime import timedelta

from app.clock import now
from app.db import queries
from app.jobs import lifecycle
from app.states import JobState
from tasks.attempt import Attempt
from tasks.heartbeat import Heartbeat
from tests.inprocess import add_job, get_job


def working(services, runner, **values) -> Attempt:
    job = lifecycle.claim(services, add_job(services).id, runner.worker.id)
    runner.current = Attempt(
        services=services, job=job, capabilities=(), draining=runner.draining, **values
    )
    return runner.current


def test_a_beat_renews_the_worker_and_its_lease(services, make_runner) -> None:
    runner = make_runner(services)
    attempt = working(services, runner)
    before = get_job(services, attempt.job.id).lease_expires_at
    Heartbeat(runner).beat()
    assert get_job(services, attempt.job.id).lease_expires_at > before
    with services.database.reading() as connection:
        (worker,) = queries.live_workers(connection, now() - timedelta(seconds=5))
    assert worker.seen_at > runner.worker.seen_at


def test_a_worker_taken_for_dead_comes_back(services, make_runner) -> None:
    runner = make_runner(services)
    with services.database.writing() as connection:
        queries.delete_worker(connection, runner.worker.id)
    Heartbeat(runner).beat()
    with services.database.reading() as connection:
        assert queries.live_workers(connection, now() - timedelta(seconds=5))


def test_an_attempt_that_hangs_is_given_away_and_the_process_ended(
    services, make_runner, monkeypatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *args: killed.append(args))
    runner = make_runner(services)
    attempt = working(services, runner, stepped=-1e9)
    Heartbeat(runner).beat()
    lost = get_job(services, attempt.job.id)
    assert (lost.state, lost.last_loss) == (JobState.QUEUED, "stuck")
    assert killed == [(os.getpid(), signal.SIGKILL)]
