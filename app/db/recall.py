"""The SQL of recalling results: jobs that are known to have, or to be about to have, the same."""

from __future__ import annotations

from sqlalchemy import Connection, and_, or_, select, update

from app.db.queries import get_job
from app.db.records import Job
from app.db.tables import jobs
from app.states import JobState


def set_key(connection: Connection, job: Job, key: str) -> None:
    statement = update(jobs).where(
        jobs.c.id == job.id, jobs.c.state == JobState.RUNNING, jobs.c.attempt == job.attempt
    )
    connection.execute(statement.values(content_key=key))


def finished(connection: Connection, job: Job, key: str) -> Job | None:
    """A job of the same owner whose result is this one's too."""
    query = select(jobs.c.id).where(
        jobs.c.content_key == key,
        jobs.c.owner == job.owner,
        jobs.c.state == JobState.SUCCEEDED,
        jobs.c.output_key.is_not(None),
        jobs.c.id != job.id,
    )
    found = connection.execute(query.limit(1)).scalar()
    return get_job(connection, found) if found else None


def is_underway(connection: Connection, job: Job, key: str) -> bool:
    """Whether an older job of the same owner, running now, will have the result.

    Of two that ask each about the other, one is the older: it goes on.
    """
    older = or_(
        jobs.c.created_at < job.created_at,
        and_(jobs.c.created_at == job.created_at, jobs.c.id < job.id),
    )
    query = select(jobs.c.id).where(
        jobs.c.content_key == key,
        jobs.c.owner == job.owner,
        jobs.c.state == JobState.RUNNING,
        older,
    )
    return connection.execute(query.limit(1)).scalar() is not None
