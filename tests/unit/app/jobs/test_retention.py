from __future__ import annotations

import io
import os
from collections.abc import Callable
from datetime import timedelta

import pytest

from app.clock import new_id, now
from app.db import deliveries
from app.jobs import retention
from app.jobs.services import Services
from app.states import JobState, Kind
from app.storage import StorageError
from tests.inprocess import add_job, get_job


def put(services: Services, key: str, *, age: timedelta = timedelta()) -> None:
    services.store.put(key, io.BytesIO(b"x"), content_type="audio/wav")
    if age:
        moment = (now() - age).timestamp()
        os.utime(services.settings.storage_dir / key, (moment, moment))


def keys(services: Services) -> list[str]:
    return sorted(blob.key for folder in ("in/", "out/") for blob in services.store.list(folder))


def test_blobs_of_every_attempt_go_first_and_the_row_later(services: Services) -> None:
    job = add_job(services, state=JobState.SUCCEEDED, expires_at=now() - timedelta(seconds=1))
    other = add_job(services, state=JobState.SUCCEEDED, expires_at=now() + timedelta(days=1))
    for key in (f"in/{job.id}/source", f"out/{job.id}/1/a", f"out/{job.id}/2/a"):
        put(services, key)
    put(services, f"out/{other.id}/1/a")
    retention.purge(services, now())
    assert keys(services) == [f"out/{other.id}/1/a"]
    purged = get_job(services, job.id)
    assert (purged.state, purged.output_key) == (JobState.SUCCEEDED, None)
    later = now() + timedelta(seconds=services.settings.tombstone_seconds + 1)
    retention.purge(services, later)
    with pytest.raises(AssertionError):
        get_job(services, job.id)


def test_a_store_that_fails_keeps_the_row_for_the_next_round(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(services, state=JobState.SUCCEEDED, expires_at=now() - timedelta(seconds=1))
    put(services, f"out/{job.id}/1/a")

    def fail(_key: str) -> None:
        raise StorageError("away")

    monkeypatch.setattr(services.store, "delete", fail)
    retention.purge(services, now())
    assert get_job(services, job.id).purged_at is None


def test_a_job_whose_webhook_is_pending_is_kept(services: Services) -> None:
    job = add_job(services, state=JobState.SUCCEEDED, expires_at=now() - timedelta(seconds=1))
    with services.database.writing() as connection:
        deliveries.insert_delivery(connection, job)
    retention.purge(services, now())
    assert get_job(services, job.id).purged_at is None


@pytest.mark.one_machine("a file's time is set")
def test_old_blobs_of_no_job_are_deleted_and_nothing_else(services: Services) -> None:
    job = add_job(services)
    old = timedelta(hours=2)
    stray, fresh = new_id("job"), new_id("job")
    put(services, f"in/{job.id}/source", age=old)
    put(services, f"in/{stray}/source", age=old)
    put(services, f"out/{stray}/1/a", age=old)
    put(services, f"in/{fresh}/source")
    retention.drop_orphans(services, now())
    assert keys(services) == sorted([f"in/{job.id}/source", f"in/{fresh}/source"])


@pytest.mark.one_machine("a file's time is set")
def test_orphans_are_looked_for_now_and_then_only(services: Services) -> None:
    retention.drop_orphans(services, now())
    put(services, f"in/{new_id('job')}/source", age=timedelta(hours=2))
    retention.drop_orphans(services, now())
    assert len(keys(services)) == 1
    later = now() + timedelta(seconds=services.settings.orphan_round_seconds + 1)
    retention.drop_orphans(services, later)
    assert keys(services) == []


def test_each_kind_has_its_own_retention(open_services: Callable[..., Services]) -> None:
    settings = open_services(retention_seconds=100.0, speech_retention_seconds=10.0).settings
    moment = now()
    assert settings.expiry(moment, Kind.SPEECH) == moment + timedelta(seconds=10)
    assert settings.expiry(moment, Kind.TRANSLATION) == moment + timedelta(seconds=100)
