"""Batches and files on both databases, without a worker: what the feeder does by itself."""

from __future__ import annotations

import io
import json
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.api.batch_lines import read
from app.clock import new_id, now
from app.db import batches as rows
from app.db import queries
from app.db.records import Batch, LoadedModel, Worker
from app.errors import Conflict, NotFound
from app.jobs import batches, files, lifecycle
from app.jobs.services import Services
from app.states import BatchState, Capability, JobState
from app.storage import keys

TTS = "/v1/audio/speech"


def line(custom_id: str) -> str:
    body = {"model": "m", "input": f"Say {custom_id}."}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": TTS, "body": body})


def start(services: Services, lines: list[str], *, seconds: float = 3600, owner: str = "") -> Batch:
    data = io.BytesIO("\n".join(lines).encode())
    file = files.create(services, data, owner=owner, purpose="batch", filename="r.jsonl")
    return batches.create(
        services,
        owner=owner,
        endpoint=TTS,
        input_file_id=file.id,
        window="1h",
        seconds=seconds,
        metadata=None,
    )


def feed(services: Services, owner: str = "me") -> None:
    batches.feed(services, owner, read, threading.Event())


def add_worker(services: Services) -> None:
    model = LoadedModel(name="m", family="fake", capabilities=(Capability.TTS,))
    worker = Worker(
        id=new_id("wkr"),
        host="here",
        pid=1,
        state="ready",
        started_at=now(),
        seen_at=now(),
        models=(model,),
    )
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)


def content(services: Services, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id
    with services.store.open(files.get(services, file_id, "").key) as file:
        return [json.loads(text) for text in file]


def work_off(services: Services) -> int:
    """Take every queued job and fail it, as a worker might."""
    with services.database.reading() as connection:
        queued = queries.list_jobs(connection, state=JobState.QUEUED, limit=1000)
    for job in queued:
        taken = lifecycle.claim(services, job.id, "w")
        assert taken
        error = {"message": "no", "type": "t", "param": None, "code": "c", "status": 500}
        lifecycle.fail(services, taken, error)
    return len(queued)


def test_lines_are_fed_so_many_at_a_time_each_once(services: Services) -> None:
    add_worker(services)
    services = replace(services, settings=services.settings.with_changes(batch_in_flight=7))
    batch = start(services, [line(f"c{n}") for n in range(20)])
    fed = []
    while not batches.get(services, batch.id, "").state.final:
        feed(services)
        fed.append(work_off(services))
    assert [count for count in fed if count] == [7, 7, 6]
    done = batches.get(services, batch.id, "")
    assert (done.state, done.total, done.completed, done.failed) == ("completed", 20, 0, 20)
    entries = content(services, done.error_file_id)
    assert [entry["custom_id"] for entry in entries] == [f"c{n}" for n in range(20)]
    assert {entry["response"]["status_code"] for entry in entries} == {500}


def test_a_batch_that_no_worker_takes_in_time_expires(services: Services) -> None:
    batch = start(services, [line("a"), "broken"], seconds=0)
    feed(services)
    done = batches.get(services, batch.id, "")
    assert done.state is BatchState.EXPIRED
    assert done.expired_at
    first, second = content(services, done.error_file_id)
    assert first["error"]["code"] == "batch_expired"
    assert second["error"]["code"] == "invalid_request"


def test_a_cancelled_batch_cancels_its_jobs(services: Services) -> None:
    add_worker(services)
    batch = start(services, [line("a"), line("b")])
    feed(services)
    batches.cancel(services, batch.id, "")
    feed(services)
    assert batches.get(services, batch.id, "").state is BatchState.CANCELLED
    with services.database.reading() as connection:
        found = queries.list_jobs(connection, batch_id=batch.id, limit=10)
    assert [job.state for job in found] == [JobState.CANCELLED] * 2
    with pytest.raises(Conflict):
        batches.cancel(services, batch.id, "")


def test_too_many_lines(services: Services) -> None:
    services = replace(services, settings=services.settings.with_changes(batch_max_lines=2))
    batch = start(services, [line("a"), line("b"), line("c")])
    feed(services)
    done = batches.get(services, batch.id, "")
    assert done.state is BatchState.FAILED
    assert done.errors
    assert done.errors[0]["code"] == "too_many_lines"


def test_one_process_feeds_at_a_time(services: Services) -> None:
    feed(services, "one")
    batch = start(services, [line("a")])
    feed(services, "two")
    assert batches.get(services, batch.id, "").state is BatchState.VALIDATING


def test_what_is_another_s_is_not_there(services: Services) -> None:
    batch = start(services, [line("a")], owner="key_1")
    for owner in ("key_1", ""):
        assert batches.get(services, batch.id, owner)
        assert files.get(services, batch.input_file_id, owner)
    with pytest.raises(NotFound):
        batches.get(services, batch.id, "key_2")
    with pytest.raises(NotFound):
        files.get(services, batch.input_file_id, "key_2")
    with services.database.reading() as connection:
        assert not rows.list_batches(connection, owner="key_2", after=None, limit=9)


def test_old_files_batches_and_orphans_are_swept(services: Services) -> None:
    batch = start(services, ["broken"])
    feed(services)
    done = batches.get(services, batch.id, "")
    orphan = keys.uploaded(files.new_file_id())
    services.store.put(orphan, io.BytesIO(b"x"), content_type="text/plain")
    files.sweep(services, now() + timedelta(hours=2))
    assert content(services, done.error_file_id)
    assert not any(blob.key == orphan for blob in services.store.list("files/"))
    files.sweep(services, now() + timedelta(days=31))
    assert list(services.store.list("files/")) == []
    for missing in (batch.input_file_id, done.error_file_id or ""):
        with pytest.raises(NotFound):
            files.get(services, missing, "")
    with pytest.raises(NotFound):
        batches.get(services, batch.id, "")
