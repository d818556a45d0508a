"""Two workers at the same work: one goes on, the other waits for its result, and copies it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from app.clock import new_id
from app.db import queries
from app.db.records import Job
from app.jobs import lifecycle
from app.jobs.services import Services
from app.jobs.submit import Submission, submit
from app.states import Capability, JobState, Kind, Lane
from app.storage import keys
from models.base import Capability as ModelCapability
from models.base import ModelInfo
from tasks.attempt import Attempt
from tasks.draining import Draining
from tasks.recall import Underway, content_key, recall

MODEL = ModelInfo(
    name="m", family="fake", capabilities=frozenset({ModelCapability.TTS}), revision="1"
)


def attempt(services: Services, *, owner: str = "", **options: object) -> Attempt:
    """Of a job that a worker has just taken."""
    job = submit(
        services,
        Submission(
            kind=Kind.SPEECH,
            options={"input": "Hello.", **options},
            lane=Lane.BULK,
            sync=False,
            owner=owner,
        ),
    )
    taken = lifecycle.claim(services, job.id, new_id("wkr"))
    assert taken
    return Attempt(
        services=services,
        job=taken,
        capabilities=(Capability.TTS,),
        draining=Draining(),
    )


def finish(taken: Attempt) -> Job:
    store, job = taken.services.store, taken.job
    for key, data in (
        (keys.timing(job.id, job.attempt), b"[]"),
        (keys.speech(job.id, job.attempt), b"speech"),
    ):
        blob = store.put(key, io.BytesIO(data), content_type="audio/wav")
    done = lifecycle.succeed(
        taken.services, job, blob, model="m", metrics={}, content_key=content_key(job, MODEL)
    )
    assert done
    return done


def test_the_older_goes_on_and_the_younger_copies(services: Services) -> None:
    older, younger = attempt(services), attempt(services)
    assert recall(older, MODEL) is None
    with pytest.raises(Underway):
        recall(younger, MODEL)
    assert recall(older, MODEL) is None
    lifecycle.postpone(services, younger.job, 0.0)
    with services.database.reading() as connection:
        waiting = queries.get_job(connection, younger.job.id)
    assert waiting
    assert (waiting.state, waiting.losses, waiting.enqueued_at) == (JobState.QUEUED, 0, None)
    finish(older)
    taken = lifecycle.claim(services, younger.job.id, "w")
    assert taken
    younger.job = taken
    blob = recall(younger, MODEL)
    assert blob
    assert blob.key == keys.speech(taken.id, taken.attempt)
    with services.store.open(blob.key) as file:
        assert file.read() == b"speech"
    with services.store.open(keys.timing(taken.id, taken.attempt)) as file:
        assert file.read() == b"[]"


def test_other_work_and_another_s_work_is_not_the_same(services: Services) -> None:
    finish(attempt(services, owner="key_1"))
    assert recall(attempt(services, owner="key_1"), MODEL)
    assert recall(attempt(services, owner="key_2"), MODEL) is None
    assert recall(attempt(services, owner="key_1", voice="am_adam"), MODEL) is None
    assert recall(attempt(services, owner="key_1", force=True), MODEL) is None
    newer = replace(MODEL, revision="2")
    assert recall(attempt(services, owner="key_1"), newer) is None


def test_a_result_that_was_deleted_is_worked_out_anew(services: Services) -> None:
    done = finish(attempt(services))
    services.store.delete(done.output_key or "")
    assert recall(attempt(services), MODEL) is None
