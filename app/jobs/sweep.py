"""The sweeper: what puts right whatever a death left behind. One process at a time does it.

It gives lost jobs to other workers, rings again for jobs whose message may be gone, expires what
nobody started in time, and deletes what has been kept long enough.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import structlog

from app import broker
from app.clock import now
from app.db import queries
from app.db.records import Job
from app.db.tables import jobs
from app.jobs.errors import CANCELLED, EXPIRED, WORKER_LOST
from app.jobs.services import Services
from app.states import JobState
from app.storage import StorageError

LEASE = "sweep"
FORGET_WORKER_SECONDS = 3600.0  # a worker row unseen for so long is deleted

log = structlog.get_logger()


def sweep(services: Services, owner: str) -> bool:
    """One round; False when another process holds the sweep."""
    moment = now()
    until = moment + timedelta(seconds=5 * services.settings.sweep_seconds)
    with services.database.writing() as connection:
        if not queries.take_lease(connection, LEASE, owner=owner, now=moment, until=until):
            return False
    recover(services, moment)
    expire(services, moment)
    resend(services, moment)
    purge(services, moment)
    forget_workers(services, moment)
    return True


def recover(services: Services, moment: datetime) -> None:
    """Put jobs whose worker is gone back into the queue, or give up after too many losses."""
    with services.database.reading() as connection:
        lost = queries.lost_jobs(connection, moment)
    for job in lost:
        moved = _recover(services, job, moment)
        if moved is None:
            continue
        log.warning("job_lost", job_id=job.id, attempt=job.attempt, state=moved.state)
        if moved.state is JobState.QUEUED:
            ring(services, moved)
        else:
            services.announcer.announce(job.id)


def _recover(services: Services, job: Job, moment: datetime) -> Job | None:
    losses = job.losses + 1
    values: dict[str, Any] = {"losses": losses, "worker": None, "lease_expires_at": None}
    if job.cancel_requested:
        new, error = JobState.CANCELLED, CANCELLED
    elif losses >= services.settings.max_attempts:
        new, error = JobState.FAILED, WORKER_LOST
    else:
        new, error = JobState.QUEUED, None
    if new.final:
        values |= {
            "error": error,
            "finished_at": moment,
            "expires_at": services.settings.expiry(moment),
        }
    still_lost = jobs.c.lease_expires_at < moment
    with services.database.writing() as connection:
        return queries.move(
            connection, job.id, JobState.RUNNING, new, still_lost, fence=job.attempt, **values
        )


def expire(services: Services, moment: datetime) -> None:
    with services.database.reading() as connection:
        overdue = queries.overdue_jobs(connection, moment)
    for job in overdue:
        with services.database.writing() as connection:
            queries.move(
                connection,
                job.id,
                JobState.QUEUED,
                JobState.EXPIRED,
                error=EXPIRED,
                finished_at=moment,
                expires_at=services.settings.expiry(moment),
            )
        services.announcer.announce(job.id)


def resend(services: Services, moment: datetime) -> None:
    """Ring again for queued jobs whose message is old: it may have vanished with the broker."""
    before = moment - timedelta(seconds=services.settings.resend_seconds)
    with services.database.reading() as connection:
        unsent = queries.unsent_jobs(connection, before)
    for job in unsent:
        ring(services, job)


def ring(services: Services, job: Job) -> None:
    try:
        broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    except broker.BrokerDown as error:
        log.warning("broker_down", job_id=job.id, error=str(error))
        return
    with services.database.writing() as connection:
        queries.mark_sent(connection, job.id, now())


def purge(services: Services, moment: datetime) -> None:
    """Delete the blobs, then the row: a crash between leaves a row that is purged again."""
    with services.database.reading() as connection:
        expired = queries.purgeable_jobs(connection, moment)
    for job in expired:
        try:
            for key in (job.input_key, job.output_key):
                if key:
                    services.store.delete(key)
        except (StorageError, OSError) as error:
            log.warning("purge_failed", job_id=job.id, error=str(error))
            continue
        with services.database.writing() as connection:
            queries.delete_job(connection, job.id)


def forget_workers(services: Services, moment: datetime) -> None:
    before = moment - timedelta(seconds=FORGET_WORKER_SECONDS)
    with services.database.writing() as connection:
        queries.delete_stale_workers(connection, before)
