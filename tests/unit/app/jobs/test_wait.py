from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.exc import OperationalError

from app.jobs import lifecycle
from app.jobs import wait as wait_module
from app.jobs.services import Services
from app.jobs.wait import Doorbell, wait
from app.states import JobState
from tests.inprocess import add_job


@pytest.fixture
def doorbell() -> Doorbell:
    return Doorbell("redis://nowhere", "")


def test_the_bell_wakes_who_waits_for_that_job(services: Services, doorbell: Doorbell) -> None:
    job = add_job(services)

    async def scene():
        waiting = asyncio.create_task(wait(services, doorbell, job.id, 30))
        await asyncio.sleep(0)
        await asyncio.to_thread(lifecycle.cancel, services, job.id)
        doorbell.ring(job.id)
        return await waiting

    assert asyncio.run(scene()).state is JobState.CANCELLED


def test_without_a_bell_the_row_is_read(services: Services, doorbell: Doorbell) -> None:
    job = add_job(services)

    async def scene():
        waiting = asyncio.create_task(wait(services, doorbell, job.id, 30))
        await asyncio.to_thread(lifecycle.cancel, services, job.id)
        return await waiting

    assert asyncio.run(scene()).state is JobState.CANCELLED


def test_the_time_is_up(services: Services, doorbell: Doorbell) -> None:
    job = add_job(services)
    found = asyncio.run(wait(services, doorbell, job.id, 0))
    assert found is not None
    assert found.state is JobState.QUEUED


def test_a_job_that_is_gone(services: Services, doorbell: Doorbell) -> None:
    assert asyncio.run(wait(services, doorbell, "job_none", 30)) is None


def test_a_database_that_is_away_is_waited_for(
    services: Services, doorbell: Doorbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(services)
    lifecycle.cancel(services, job.id)
    read, failures = wait_module.read, iter([True, True])

    def flaky(*args: object):
        if next(failures, False):
            raise OperationalError("SELECT", {}, Exception("restarting"))
        return read(*args)

    monkeypatch.setattr(wait_module, "read", flaky)
    monkeypatch.setattr(wait_module, "POLL_SECONDS", 0.0)
    found = asyncio.run(wait(services, doorbell, job.id, 30))
    assert found is not None
    assert found.state is JobState.CANCELLED
    failures = iter([True])
    with pytest.raises(OperationalError):
        asyncio.run(wait(services, doorbell, job.id, 0))
