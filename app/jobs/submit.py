"""``submit``: the one path of synchronous, asynchronous and bulk requests into the queue."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, BinaryIO

from app import broker
from app.audio.limits import Limits, check
from app.audio.sniff import probe
from app.clock import new_id, now
from app.db import queries
from app.db.records import Job
from app.errors import Busy
from app.jobs import admission
from app.jobs.errors import from_service_error
from app.jobs.services import Services
from app.states import JobState, Kind, Lane
from app.storage import keys

NAME_CHARACTERS = 255  # of an upload's own name, kept for people to recognise it


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A recording as it came in."""

    file: BinaryIO
    """Seekable."""
    size: int
    """Bytes."""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    kind: Kind
    options: dict[str, Any] = field(default_factory=dict)
    upload: Upload | None = None
    lane: Lane = Lane.INTERACTIVE
    sync: bool = True
    request_id: str = ""
    deadline_at: datetime | None = None


def submit(services: Services, submission: Submission) -> Job:
    """Bound, admit, store, insert and ring; returns the queued job.

    Raises BadAudio, TooLarge or Busy. A refused request leaves nothing behind.
    """
    job = Job(
        id=new_id("job"),
        kind=submission.kind,
        lane=submission.lane,
        sync=submission.sync,
        options=submission.options,
        request_id=submission.request_id,
        created_at=now(),
        deadline_at=submission.deadline_at,
    )
    job = _with_input(services, job, submission.upload) if submission.upload else job
    try:
        with services.database.writing() as connection:
            admission.admit(connection, services, job)
    except BaseException:
        _drop_input(services, job)
        raise
    return _ring(services, job)


def _with_input(services: Services, job: Job, upload: Upload) -> Job:
    """Check the recording's bounds, and store it unless the queue is full anyway."""
    settings = services.settings
    limits = Limits(max_bytes=settings.max_upload_bytes, max_seconds=settings.max_audio_seconds)
    upload.file.seek(0)
    geometry = probe(upload.file, upload.size)
    check(geometry, upload.size, limits)
    if job.sync:
        with services.database.reading() as connection:
            admission.check(connection, services, job.capability)
    upload.file.seek(0)
    blob = services.store.put(
        keys.source(job.id), upload.file, content_type=f"audio/{geometry.container}"
    )
    return replace(
        job,
        input_key=blob.key,
        input_name=upload.name[:NAME_CHARACTERS],
        input_bytes=blob.size,
        input_sha256=blob.sha256,
        input_seconds=geometry.duration_seconds,
    )


def _drop_input(services: Services, job: Job) -> None:
    if job.input_key:
        services.store.delete(job.input_key)


def _ring(services: Services, job: Job) -> Job:
    """Send the message. Without a broker a waiting caller is told; any other job waits for it."""
    try:
        broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    except broker.BrokerDown as error:
        if not job.sync:
            return job  # the sweeper sends it
        busy = Busy(
            "The queue is not reachable. Please try again later.",
            headers={"Retry-After": str(admission.RETRY_SECONDS)},
        )
        with services.database.writing() as connection:
            queries.move(
                connection,
                job.id,
                JobState.QUEUED,
                JobState.CANCELLED,
                finished_at=now(),
                expires_at=services.settings.expiry(now()),
                error=from_service_error(busy),
            )
        raise busy from error
    with services.database.writing() as connection:
        queries.mark_sent(connection, job.id, now())
    return job
