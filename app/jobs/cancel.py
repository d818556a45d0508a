"""Cancelling: a queued job at once, a running one at its next checkpoint. Idempotent."""

from __future__ import annotations

from app.clock import now
from app.db import queries
from app.db.records import Job
from app.jobs.errors import CANCELLED
from app.jobs.services import Services
from app.states import JobState


def cancel(services: Services, job_id: str) -> Job | None:
    """The job as it is afterwards; None when there is no such job."""
    with services.database.writing() as connection:
        job = queries.get_job(connection, job_id)
        if job is None or job.state.final:
            return job
        moved = queries.move(
            connection,
            job_id,
            JobState.QUEUED,
            JobState.CANCELLED,
            finished_at=now(),
            expires_at=services.settings.expiry(now()),
            error=CANCELLED,
        )
        if moved is None:
            queries.request_cancel(connection, job_id)
    if moved:
        services.announcer.announce(job_id)
        return moved
    with services.database.reading() as connection:
        return queries.get_job(connection, job_id)
