"""The life of a job: every move that a worker, a caller or the sweeper makes, in one place.

Each is one transaction and a compare-and-set, so that of all who try it one succeeds and the others
are told None. A move to a final state is announced to whoever waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import ColumnElement

from app import broker
from app.clock import now
from app.db import queries
from app.db.records import Job
from app.jobs.errors import CANCELLED, EXPIRED, JobError, Loss
from app.jobs.services import Services
from app.states import JobState
from app.storage import StoredBlob

MAX_BACKOFF_SECONDS = 60.0

log = structlog.get_logger()


def lease_end(services: Services) -> datetime:
    return now() + timedelta(seconds=services.settings.lease_seconds)


def claim(services: Services, job_id: str, worker: str) -> Job | None:
    """The job as it is now this worker's; None when it is not to be had."""
    until = lease_end(services)
    # A claim that a power cut undoes leaves the job as it was: queued.
    with services.database.writing(durable=False) as connection:
        return queries.claim(connection, job_id, worker=worker, now=now(), lease_until=until)


def succeed(services: Services, job: Job, blob: StoredBlob, **outcome: Any) -> Job | None:
    """Make the attempt's output visible, unless it was promised that the job is cancelled.

    The succeeded job; None when the blob is nobody's. Safe to repeat when the answer got lost.
    """
    done = _finish(
        services,
        job,
        JobState.SUCCEEDED,
        queries.not_cancelled(),
        output_key=blob.key,
        output_bytes=blob.size,
        output_sha256=blob.sha256,
        progress=1.0,
        **outcome,
    )
    if done or cancelled(services, job):
        return done
    with services.database.reading() as connection:
        found = queries.get_job(connection, job.id)
    return found if found and found.output_key == blob.key else None


def fail(services: Services, job: Job, error: JobError, **outcome: Any) -> Job | None:
    return _finish(services, job, JobState.FAILED, error=error, **outcome)


def cancelled(services: Services, job: Job, *where: ColumnElement[bool]) -> Job | None:
    """The attempt stops because somebody asked for the job to be cancelled."""
    asked = ~queries.not_cancelled()
    return _finish(services, job, JobState.CANCELLED, asked, *where, error=CANCELLED)


def withdraw(services: Services, job: Job, error: JobError) -> Job | None:
    """Nobody will do the queued job, and the caller is told so at once."""
    return _finish(services, job, JobState.CANCELLED, error=error)


def expire(services: Services, job: Job) -> Job | None:
    return _finish(services, job, JobState.EXPIRED, error=EXPIRED)


def hand_back(services: Services, job: Job) -> Job | None:
    """The attempt gives the job back unharmed; another one goes on with it."""
    with services.database.writing() as connection:
        queued = queries.requeue(connection, job, enqueued_at=now())
    if queued is None:
        return cancelled(services, job)
    ring(services, queued)
    return queued


def postpone(services: Services, job: Job, seconds: float) -> Job | None:
    """The attempt gives the job back unharmed, to be taken up again after so long."""
    later = now() + timedelta(seconds=seconds)
    with services.database.writing() as connection:
        queued = queries.requeue(connection, job, run_after=later, enqueued_at=None)
    return queued or cancelled(services, job)


def lose(services: Services, job: Job, loss: Loss, *where: ColumnElement[bool]) -> Job | None:
    """The attempt ended through no fault of the job that is known: try again, within reason."""
    settings = services.settings
    before, most = (
        (job.losses, settings.max_attempts)
        if loss.counter == "losses"
        else (job.faults, settings.max_faulty_attempts)
    )
    counted = {loss.counter: before + 1, "last_loss": loss.code}
    if before + 1 >= most:
        wanted = queries.not_cancelled()
        moved = _finish(services, job, JobState.FAILED, wanted, *where, error=loss.error, **counted)
    else:
        delay = min(loss.backoff_seconds * 2.0**before, MAX_BACKOFF_SECONDS)
        moved = _try_again(services, job, delay, *where, **counted)
    moved = moved or cancelled(services, job, *where)
    if moved:
        log.warning("job_lost", job_id=job.id, attempt=job.attempt, loss=loss.code, to=moved.state)
    return moved


def _try_again(
    services: Services, job: Job, delay: float, *where: ColumnElement[bool], **counted: Any
) -> Job | None:
    when = now() + timedelta(seconds=delay) if delay else None
    with services.database.writing() as connection:
        sent = None if when else now()
        queued = queries.requeue(
            connection, job, *where, run_after=when, enqueued_at=sent, **counted
        )
    if queued and not when:
        ring(services, queued)
    return queued


def cancel(services: Services, job_id: str) -> Job | None:
    """Cancel: a queued job at once, a running one at its next checkpoint. Idempotent.

    The job as it is afterwards; None when there is no such job.
    """
    while True:
        with services.database.reading() as connection:
            job = queries.get_job(connection, job_id)
        if job is None or job.state.final or job.cancel_requested:
            return job
        if job.state is JobState.QUEUED:
            done = _finish(services, job, JobState.CANCELLED, error=CANCELLED)
        else:
            with services.database.writing() as connection:
                done = queries.request_cancel(connection, job_id)
        if done:
            return done  # else it moved in between: look again


def send(services: Services, job: Job) -> None:
    """Send the job's message again; raises BrokerDown."""
    broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    with services.database.writing() as connection:
        queries.mark_sent(connection, job.id, now())


def ring(services: Services, job: Job) -> None:
    """Send the message of a job whose row says that it is sent; else the sweeper does it later."""
    try:
        broker.send(services.celery, job.id, kind=job.kind, queue=job.queue)
    except broker.BrokerDown as error:
        log.warning("broker_down", job_id=job.id, error=str(error))
        with services.database.writing() as connection:
            queries.mark_sent(connection, job.id, None)


def invite(services: Services, job: Job, count: int) -> None:
    """Ask so many workers to help with the running job; nothing is lost when none of them comes."""
    try:
        for _ in range(count):
            broker.invite(services.celery, job.id, job.attempt)
    except broker.BrokerDown as error:
        log.warning("broker_down", job_id=job.id, error=str(error))


def _finish(
    services: Services, job: Job, state: JobState, *where: ColumnElement[bool], **values: Any
) -> Job | None:
    moment = now()
    with services.database.writing(durable=job.durable) as connection:
        moved = queries.move(
            connection,
            job.id,
            job.state,
            state,
            *where,
            fence=job.attempt,
            finished_at=moment,
            expires_at=services.settings.expiry(moment, job.kind),
            lease_expires_at=None,
            run_after=None,
            **values,
        )
    if moved:
        services.announcer.announce(job.id)
    return moved
