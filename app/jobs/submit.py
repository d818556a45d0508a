"""``submit``: the one path of synchronous, asynchronous and bulk requests into the queue."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, BinaryIO

import structlog
from sqlalchemy.exc import DBAPIError

from app import broker, telemetry
from app.audio.limits import Limits, inspect
from app.clock import new_id, now
from app.db.records import IdempotencyKey, Job
from app.errors import Busy, ServiceError, Unavailable
from app.jobs import admission, callbacks, idempotency, lifecycle
from app.jobs.errors import from_service_error
from app.jobs.services import Services
from app.states import Kind, Lane
from app.storage import StorageError, keys

NAME_CHARACTERS = 255  # of an upload's own name, kept for people to recognise it
ASSUMED_BYTES_PER_SECOND = 16_000  # of a recording whose header does not tell its length

log = structlog.get_logger()


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
    idempotency_key: str | None = None
    """A repetition under the same key joins the job of the first request."""
    owner: str = ""
    """Whose key it is: two callers may choose the same."""
    callback_url: str | None = None
    batch_id: str | None = None

    @property
    def kept(self) -> bool:
        """The caller wants the job even when nobody waits on the connection any more."""
        return not self.sync or self.idempotency_key is not None


def submit(services: Services, submission: Submission) -> Job:
    """Bound, admit, store, insert and ring; returns the job, which may be an earlier twin's.

    Raises BadAudio, TooLarge, BadRequest, Unprocessable, Busy or Unavailable. A refused request
    leaves nothing behind.
    """
    if submission.callback_url:
        callbacks.check_url(submission.callback_url, services.settings.webhook_allow)
    key = idempotency.key_of(submission)
    if key and (twin := idempotency.twin(services, key)):
        return twin
    moment = now()
    expiry = moment + timedelta(seconds=services.settings.queue_expiry_seconds)
    job = Job(
        id=new_id("job"),
        kind=submission.kind,
        lane=submission.lane,
        sync=submission.sync,
        options=submission.options,
        request_id=submission.request_id,
        traceparent=telemetry.traceparent(),
        owner=submission.owner,
        created_at=moment,
        enqueued_at=moment,
        deadline_at=submission.deadline_at or expiry,
        callback_url=submission.callback_url,
        batch_id=submission.batch_id,
        cost=float(len(submission.options.get("input", ""))),
    )
    job = _with_input(services, job, submission.upload) if submission.upload else job
    admitted = _admit(services, job, key)
    return _ring(services, job, submission) if admitted is job else admitted


def _admit(services: Services, job: Job, key: IdempotencyKey | None) -> Job:
    """The job once it is in, or the twin that was quicker."""
    try:
        with services.database.writing(durable=job.durable) as connection:
            admitted = admission.admit(connection, services, job, key)
    except ServiceError:
        _drop_input(services, job)
        raise
    except DBAPIError as error:
        # Whether the row is in is not known, so the recording stays; the sweeper deletes an orphan.
        log.warning("database_failed", job_id=job.id, error=str(error))
        raise Unavailable("The database failed. Please try again later.") from error
    if admitted is not job:
        _drop_input(services, job)
    return admitted


def _with_input(services: Services, job: Job, upload: Upload) -> Job:
    """Check the recording's bounds, and store it unless the queue is full anyway."""
    settings = services.settings
    limits = Limits(
        max_bytes=settings.max_bytes(job.lane), max_seconds=settings.max_seconds(job.lane)
    )
    geometry = inspect(upload.file, limits)
    if job.sync:
        with services.database.reading() as connection:
            admission.check(connection, services, job.capability)
    upload.file.seek(0)
    try:
        blob = services.store.put(
            keys.source(job.id),
            upload.file,
            content_type=f"audio/{geometry.container}",
            durable=job.durable,
        )
    except StorageError as error:
        log.warning("storage_failed", job_id=job.id, error=str(error))
        raise Unavailable("The storage failed. Please try again later.") from error
    return replace(
        job,
        input_key=blob.key,
        input_name=upload.name[:NAME_CHARACTERS],
        input_bytes=blob.size,
        input_sha256=blob.sha256,
        input_seconds=geometry.duration_seconds,
        cost=geometry.duration_seconds or upload.size / ASSUMED_BYTES_PER_SECOND,
    )


def _drop_input(services: Services, job: Job) -> None:
    if job.input_key:
        try:
            services.store.delete(job.input_key)
        except (StorageError, OSError) as error:
            log.warning("input_kept", job_id=job.id, error=str(error))  # the sweeper deletes it


def _ring(services: Services, job: Job, submission: Submission) -> Job:
    """Send the message. Without a broker a waiting caller is told; any other job waits for it."""
    if submission.kept:
        lifecycle.ring(services, job)
        return job
    try:
        broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    except broker.BrokerDown as error:
        busy = Busy(
            "The queue is not reachable. Please try again later.",
            headers={"Retry-After": str(admission.RETRY_SECONDS)},
        )
        lifecycle.withdraw(services, job, from_service_error(busy))
        raise busy from error
    return job
