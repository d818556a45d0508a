"""The SQL of estimates: what stands before a queued job, and how fast such work has been lately."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from app.db.records import Job
from app.db.tables import jobs
from app.states import Capability, JobState, Lane


def ahead(connection: Connection, job: Job) -> tuple[int, float]:
    """Queued jobs that the workers will take before this one, and the size of all that will be
    worked on before it, as far as still to be done.
    """
    queued = and_(jobs.c.state == JobState.QUEUED, _ahead(job))
    left = jobs.c.cost * (1.0 - jobs.c.progress)
    query = select(
        func.count().filter(jobs.c.state == JobState.QUEUED),
        func.coalesce(func.sum(left), 0.0),
    ).where(jobs.c.capability == job.capability, or_(jobs.c.state == JobState.RUNNING, queued))
    count, cost = connection.execute(query).one()
    return count, cost


def _ahead(job: Job) -> ColumnElement[bool]:
    earlier = and_(jobs.c.lane == job.lane, jobs.c.created_at < job.created_at)
    return or_(jobs.c.lane == Lane.INTERACTIVE, earlier) if job.lane is Lane.BULK else earlier


def seconds_per_cost(
    connection: Connection, capability: Capability, *, sample: int = 20
) -> float | None:
    """How long the latest finished jobs took for their size; None without any."""
    query = (
        select(jobs.c.metrics, jobs.c.cost)
        .where(
            jobs.c.state == JobState.SUCCEEDED,
            jobs.c.capability == capability,
            jobs.c.metrics.is_not(None),
            jobs.c.attempt == 1,  # its metrics are of the whole work
        )
        .order_by(jobs.c.created_at.desc())
        .limit(sample)
    )
    rows = connection.execute(query).all()
    total = sum(cost for _, cost in rows)
    return sum(metrics.get("run_seconds", 0.0) for metrics, _ in rows) / total if total else None
