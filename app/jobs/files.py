"""Files in OpenAI's sense: uploads that batches read, and what batches write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import BinaryIO
from uuid import uuid4

import structlog

from app.clock import new_id, now
from app.db import batches, queries
from app.db import files as rows
from app.db.records import File, Job
from app.errors import NotFound, Unavailable
from app.jobs.services import Services
from app.storage import StorageError, keys

LEASE = "files"
FOLDER = "files/"
NAME_CHARACTERS = 255

log = structlog.get_logger()


def new_file_id() -> str:
    """OpenAI's have a dash."""
    return f"file-{uuid4().hex}"


def create(
    services: Services,
    file: BinaryIO,
    *,
    owner: str,
    purpose: str,
    filename: str,
    keep_seconds: float | None = None,
) -> File:
    """Store a file from its beginning. Raises Unavailable."""
    id_, moment = new_file_id(), now()
    file.seek(0)
    try:
        blob = services.store.put(keys.uploaded(id_), file, content_type="application/octet-stream")
    except StorageError as error:
        log.warning("storage_failed", file_id=id_, error=str(error))
        raise Unavailable("The storage failed. Please try again later.") from error
    keep = keep_seconds or services.settings.file_retention_seconds
    made = File(
        id=id_,
        owner=owner,
        purpose=purpose,
        filename=filename[:NAME_CHARACTERS],
        bytes=blob.size,
        key=blob.key,
        created_at=moment,
        expires_at=moment + timedelta(seconds=keep),
    )
    with services.database.writing() as connection:
        rows.insert_file(connection, made)
    return made


def of_speech(services: Services, job: Job) -> File:
    """A job's speech as a file, without another copy: it goes when the job's blobs go."""
    moment = job.finished_at or now()
    made = File(
        id=f"file-{job.id.removeprefix('job_')}",
        owner=job.owner,
        purpose="batch_output",
        filename="speech.wav",
        bytes=job.output_bytes or 0,
        key=job.output_key or "",
        created_at=moment,
        expires_at=job.expires_at or moment,
    )
    with services.database.writing() as connection:
        if rows.get_file(connection, made.id) is None:
            rows.insert_file(connection, made)
    return made


def get(services: Services, file_id: str, owner: str) -> File:
    """Raises NotFound, also for another caller's file."""
    with services.database.reading() as connection:
        found = rows.get_file(connection, file_id)
    if found is None or (owner and found.owner != owner):
        raise NotFound("No such file.", param="file_id")
    return found


def delete(services: Services, file: File) -> None:
    """The row first: a blob without a row is an orphan, which is swept."""
    with services.database.writing() as connection:
        rows.delete_file(connection, file.id)
    if file.key.startswith(FOLDER):  # else it is a job's
        try:
            services.store.delete(file.key)
        except (StorageError, OSError) as error:
            log.warning("file_kept", file_id=file.id, error=str(error))


def sweep(services: Services, moment: datetime) -> None:
    """Delete what has been kept long enough, and blobs whose row was never made."""
    with services.database.reading() as connection:
        old = rows.expired(connection, moment)
    for file in old:
        delete(services, file)
    with services.database.writing() as connection:
        age = timedelta(seconds=services.settings.file_retention_seconds)
        batches.delete_old(connection, moment - age)
    until = moment + timedelta(seconds=services.settings.orphan_round_seconds)
    with services.database.writing() as connection:
        # A new owner each time: the lease runs out by itself, and so paces the rounds.
        if not queries.take_lease(connection, LEASE, owner=new_id("fil"), now=moment, until=until):
            return
    before = moment - timedelta(seconds=services.settings.orphan_seconds)
    for blob in services.store.list(FOLDER):
        if blob.modified_at < before:
            with services.database.reading() as connection:
                orphan = rows.get_file(connection, keys.job_of(blob.key)) is None
            if orphan:
                services.store.delete(blob.key)
