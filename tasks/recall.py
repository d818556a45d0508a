"""Never twice: the same input, options and model revision are answered from a finished result.

A job of the bulk lane looks for one before its model is called, in batches of any age. The result
is copied, so that each job owns what it has and none outlives another's retention by accident.
"""

from __future__ import annotations

import hashlib
import json

import structlog

from app.db import recall as rows
from app.db.records import Job
from app.states import Lane
from app.storage import StoredBlob, keys
from models.base import ModelInfo
from tasks.attempt import Attempt, Stop

WAIT_SECONDS = 5.0  # before it is looked again whether the twin has finished
NOT_ASKED = frozenset(
    {"force", "response_format", "stream"}
)  # options that do not change the stored result

log = structlog.get_logger()


class Underway(Stop):
    """Another worker is at the same work: its result will do."""


def content_key(job: Job, model: ModelInfo) -> str:
    options = {name: value for name, value in job.options.items() if name not in NOT_ASKED}
    parts = [job.kind, options, job.input_sha256, model.name, model.revision]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_new(attempt: Attempt, model: ModelInfo) -> bool:
    """Whether no other job has the result, or will have it before this one."""
    if attempt.job.options.get("force"):
        return True
    try:
        return attempt.patiently(lambda: _twin(attempt, content_key(attempt.job, model))) is None
    except Underway:
        return False


def recall(attempt: Attempt, model: ModelInfo) -> StoredBlob | None:
    """The finished result of the same work, copied; None when there is none. Raises Underway."""
    job = attempt.job
    if job.lane is not Lane.BULK or job.options.get("force"):
        return None
    twin = attempt.patiently(lambda: _twin(attempt, content_key(job, model)))
    if twin is None:
        return None
    try:
        blob = _copy(attempt, twin)
    except FileNotFoundError:
        return None  # deleted since
    attempt.metrics["reused"] = 1.0
    attempt.metrics["audio_seconds"] = (twin.metrics or {}).get("audio_seconds", 0.0)
    log.info("result_reused", twin=twin.id)
    return blob


def _twin(attempt: Attempt, key: str) -> Job | None:
    """First tell others what is being worked on, then look for them: so no two miss each other."""
    database, job = attempt.services.database, attempt.job
    with database.writing(durable=False) as connection:  # a power cut ends the other's work too
        rows.set_key(connection, job, key)
    with database.reading() as connection:
        twin = rows.finished(connection, job, key)
        if twin is None and rows.is_underway(connection, job, key):
            raise Underway
    return twin


def _copy(attempt: Attempt, twin: Job) -> StoredBlob:
    store = attempt.services.store
    output = twin.output_key or ""
    for source in [*keys.beside(output), output]:  # the output itself last
        with store.open(source) as file:
            key = keys.moved(source, attempt.job.id, attempt.number)
            blob = store.put(key, file, content_type=keys.content_type(key))
    return blob
