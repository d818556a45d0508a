"""The SQL of shares: batches of windows of a running job, each taken by one of several workers.

A share is known by its first window and by the attempt, which fences it. Its row is made once, so
of all who ask for it one has it. One whose lease has ended without its windows is the leader's, who
runs the attempt, to take over; a helper never does, or one bad window would kill them all in turn.
So the leader's own shares have no lease.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, select, update

from app.db.queries import insert_if_absent
from app.db.records import Job
from app.db.tables import shares


def take(
    connection: Connection, job: Job, number: int, *, worker: str, lease_until: datetime
) -> bool:
    """True for the first who asks."""
    values = {
        "job_id": job.id,
        "attempt": job.attempt,
        "number": number,
        "worker": worker,
        "lease_expires_at": lease_until,
    }
    return insert_if_absent(connection, shares, values, keys=("job_id", "attempt", "number"))


def take_over(connection: Connection, job: Job, number: int, *, worker: str, now: datetime) -> bool:
    """True when its lease has ended."""
    statement = update(shares).where(
        _of(job), shares.c.number == number, shares.c.lease_expires_at <= now
    )
    return connection.execute(statement.values(worker=worker)).rowcount == 1


def renew(
    connection: Connection, job: Job, *, worker: str, now: datetime, lease_until: datetime
) -> bool:
    """Hold what the worker has in hand; False when that is nothing."""
    statement = update(shares).where(
        _of(job), shares.c.worker == worker, shares.c.lease_expires_at > now
    )
    return connection.execute(statement.values(lease_expires_at=lease_until)).rowcount > 0


def end(connection: Connection, job: Job, number: int, *, worker: str, now: datetime) -> bool:
    """Done or given up; False when it has been taken over."""
    statement = update(shares).where(_of(job), shares.c.number == number, shares.c.worker == worker)
    return connection.execute(statement.values(lease_expires_at=now)).rowcount == 1


def in_hand(connection: Connection, job: Job, now: datetime) -> set[int]:
    """The first windows of the shares that some worker is at."""
    query = select(shares.c.number).where(_of(job), shares.c.lease_expires_at > now)
    return set(connection.execute(query).scalars())


def busy_workers(connection: Connection, now: datetime) -> set[str]:
    query = select(shares.c.worker).where(shares.c.lease_expires_at > now)
    return set(connection.execute(query).scalars())


def _of(job: Job) -> ColumnElement[bool]:
    return and_(shares.c.job_id == job.id, shares.c.attempt == job.attempt)
