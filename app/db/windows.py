"""The SQL of finished windows: what is done of a long recording, or said of a long speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

from sqlalchemy import Connection, delete, func, insert, select

from app.db.records import WindowRow
from app.db.tables import windows


def put(connection: Connection, job_id: str, attempt: int, rows: Sequence[WindowRow]) -> None:
    """Replace what another model may have left under the same numbers."""
    numbers = [row.number for row in rows]
    connection.execute(
        delete(windows).where(windows.c.job_id == job_id, windows.c.number.in_(numbers))
    )
    connection.execute(
        insert(windows), [{**asdict(row), "job_id": job_id, "attempt": attempt} for row in rows]
    )


def get(
    connection: Connection, job_id: str, *, first: int = 0, last: int | None = None
) -> list[WindowRow]:
    """In order; ``first`` and ``last`` are numbers."""
    columns = [windows.c[field.name] for field in fields(WindowRow)]
    query = select(*columns).where(windows.c.job_id == job_id, windows.c.number >= first)
    if last is not None:
        query = query.where(windows.c.number <= last)
    rows = connection.execute(query.order_by(windows.c.number))
    return [WindowRow(**row._asdict()) for row in rows]


def count_samples(connection: Connection, job_id: str, model: str) -> int:
    """In all of them that have been finished with this model."""
    length = windows.c.end_sample - windows.c.start_sample
    query = select(func.coalesce(func.sum(length), 0)).where(
        windows.c.job_id == job_id, windows.c.model == model
    )
    total: int = connection.execute(query).scalar_one()
    return total
