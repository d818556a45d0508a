"""The SQL of retention: what has been kept long enough, in two steps.

First a job's blobs go and its row stays to say so, then the row goes too. A job whose webhook is
still to be delivered is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, exists, not_, select, update

from app.db import idempotency
from app.db.queries import get_job
from app.db.tables import deliveries, jobs, shares, windows
from app.states import DeliveryState


def purgeable(connection: Connection, now: datetime, *, limit: int = 100) -> list[str]:
    """Jobs whose blobs are to go."""
    query = select(jobs.c.id).where(jobs.c.expires_at < now, jobs.c.purged_at.is_(None), _told())
    return list(connection.execute(query.limit(limit)).scalars())


def mark_purged(connection: Connection, job_id: str, now: datetime) -> None:
    idempotency.forget_keys(connection, job_id)
    for table in (windows, shares):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    statement = update(jobs).where(jobs.c.id == job_id)
    connection.execute(statement.values(purged_at=now, input_key=None, output_key=None))


def delete_purged(connection: Connection, before: datetime) -> None:
    connection.execute(delete(jobs).where(jobs.c.purged_at < before))


def forget_input(connection: Connection, job_id: str) -> None:
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(input_key=None))


def unknown(connection: Connection, job_ids: Sequence[str]) -> set[str]:
    """Which of these jobs have no row."""
    return {job_id for job_id in job_ids if get_job(connection, job_id) is None}


def _told() -> ColumnElement[bool]:
    pending = exists().where(
        deliveries.c.job_id == jobs.c.id, deliveries.c.state == DeliveryState.PENDING
    )
    return not_(pending)
