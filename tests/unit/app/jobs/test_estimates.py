from __future__ import annotations

from datetime import timedelta

from app.clock import now
from app.db import queries
from app.db.records import LoadedModel, Worker
from app.jobs import estimates
from app.jobs.services import Services
from app.states import Capability, JobState, Kind, Lane
from tests.inprocess import add_job


def add_worker(services: Services, name: str) -> None:
    model = LoadedModel(name="m", family="f", capabilities=(Capability.STT,))
    worker = Worker(
        id=name,
        host="h",
        pid=1,
        state="ready",
        started_at=now(),
        seen_at=now(),
        models=(model,),
    )
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)


def hearing(services: Services, seconds: float, **values):
    return add_job(services, kind=Kind.TRANSCRIPTION, cost=seconds, **values)


def finished(services: Services, seconds: float, took: float) -> None:
    state = JobState.SUCCEEDED
    hearing(services, seconds, state=state, attempt=1, metrics={"run_seconds": took})


def test_no_estimate_before_anything_was_finished_or_without_a_worker(services: Services) -> None:
    job = hearing(services, 10)
    add_worker(services, "a")
    assert estimates.estimate(services, job).wait_seconds is None
    finished(services, 100, 10)
    assert estimates.estimate(services, job).wait_seconds == 0.0
    with services.database.writing() as connection:
        queries.delete_worker(connection, "a")
    assert estimates.estimate(services, job).wait_seconds is None


def test_the_wait_is_the_work_ahead_at_the_pace_of_late_shared_by_the_workers(
    services: Services,
) -> None:
    finished(services, 100, 10)
    add_worker(services, "a")
    hearing(services, 600, state=JobState.RUNNING, progress=0.5)
    hearing(services, 50)
    job = hearing(services, 10)
    found = estimates.estimate(services, job)
    assert (found.position, found.wait_seconds) == (2, 35.0)
    add_worker(services, "b")
    assert estimates.estimate(services, job).wait_seconds == 17.5


def test_callers_come_before_bulk_whenever_they_came(services: Services) -> None:
    early = now() - timedelta(minutes=1)
    bulk = hearing(services, 10, lane=Lane.BULK, created_at=early)
    caller = hearing(services, 10)
    assert estimates.estimate(services, bulk).position == 2
    assert estimates.estimate(services, caller).position == 1
