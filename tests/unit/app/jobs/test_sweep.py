from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update

from app import broker
from app.clock import now
from app.db import queries
from app.db.records import Worker
from app.db.tables import jobs
from app.jobs import lifecycle, sweep
from app.jobs.services import Services
from app.states import JobState
from tests.inprocess import add_job, get_job

QUEUE = "tts.interactive"


def messages(services: Services) -> int:
    return broker.count_messages(services.celery, QUEUE)


def test_one_process_sweeps_until_its_lease_runs_out(services: Services) -> None:
    assert sweep.sweep(services, "a")
    assert not sweep.sweep(services, "b")
    assert sweep.sweep(services, "a")
    with services.database.writing() as connection:
        queries.take_lease(
            connection, sweep.LEASE, owner="a", now=now(), until=now() - timedelta(seconds=1)
        )
    assert sweep.sweep(services, "b")


def test_a_lost_job_goes_back_and_a_held_one_stays(services: Services) -> None:
    lost, held = add_job(services), add_job(services)
    for job in (lost, held):
        lifecycle.claim(services, job.id, "w")
    with services.database.writing() as connection:
        expired = now() - timedelta(seconds=1)
        queries.renew_lease(connection, get_job(services, lost.id), lease_until=expired)
    sweep.recover(services, now())
    assert get_job(services, lost.id).state is JobState.QUEUED
    assert get_job(services, lost.id).losses == 1
    assert get_job(services, held.id).state is JobState.RUNNING


def test_what_nobody_began_in_time_expires(services: Services) -> None:
    late = add_job(services, deadline_at=now() - timedelta(seconds=1))
    begun = add_job(services, deadline_at=now() - timedelta(seconds=1), attempt=1)
    sweep.expire(services, now())
    assert get_job(services, late.id).state is JobState.EXPIRED
    assert get_job(services, begun.id).state is JobState.QUEUED


def test_a_long_healthy_backlog_is_not_sent_again(services: Services) -> None:
    old = now() - timedelta(hours=1)
    for _ in range(5):
        lifecycle.send(services, add_job(services))
    with services.database.writing() as connection:
        connection.execute(update(jobs).values(enqueued_at=old))
    sweep.resend(services, now())
    assert messages(services) == 5


def test_only_as_many_as_are_missing_are_sent_again_the_oldest_first(services: Services) -> None:
    old = now() - timedelta(hours=1)
    made = [add_job(services, enqueued_at=old + timedelta(seconds=n)) for n in range(5)]
    for job in made[3:]:
        broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    sweep.resend(services, now())
    assert messages(services) == 5
    sent = {job.id for job in made if get_job(services, job.id).enqueued_at != job.enqueued_at}
    assert sent == {job.id for job in made[:3]}


def test_a_message_just_sent_is_given_time_to_arrive(services: Services) -> None:
    add_job(services)
    sweep.resend(services, now())
    assert messages(services) == 0


def test_what_was_never_sent_is_sent_once_it_is_due(services: Services) -> None:
    unsent = add_job(services, enqueued_at=None)
    paused = add_job(services, enqueued_at=None, run_after=now() + timedelta(minutes=1))
    sweep.send(services, now())
    assert get_job(services, unsent.id).enqueued_at is not None
    assert get_job(services, paused.id).enqueued_at is None
    assert messages(services) == 1
    sweep.send(services, now() + timedelta(minutes=2))
    assert messages(services) == 2


def test_without_a_broker_the_rest_of_the_round_goes_on(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object, **__: object) -> None:
        raise broker.BrokerDown("away")

    monkeypatch.setattr(broker, "send", down)
    monkeypatch.setattr(broker, "count_messages", down)
    add_job(services, enqueued_at=None)
    old = add_job(services, expires_at=now() - timedelta(seconds=1))
    assert sweep.sweep(services, "a")
    assert get_job(services, old.id).purged_at is not None


def test_workers_unseen_for_an_hour_are_forgotten(
    open_services: Callable[..., Services],
) -> None:
    services = open_services()
    seen = now() - timedelta(hours=2)
    worker = Worker(id="w", host="h", pid=1, state="ready", started_at=seen, seen_at=seen)
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)
    sweep.forget_workers(services, now())
    with services.database.writing() as connection:
        assert not queries.beat(connection, worker)
