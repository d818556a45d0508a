"""The SQL of batches and their lines. A batch changes its state by compare-and-set, as jobs do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from app.db.records import Batch, BatchLine
from app.db.tables import batch_lines as lines
from app.db.tables import batches, jobs
from app.states import BATCH_MOVES, BatchState, JobState, LineState

_BATCH = [batches.c[field.name] for field in fields(Batch)]
_LINE = [lines.c[field.name] for field in fields(BatchLine)]
_OPEN = [state for state in BatchState if not state.final]
_FINAL_JOBS = [state for state in JobState if state.final]


def _batch(row: Any) -> Batch:
    values = row._asdict()
    return Batch(**{**values, "state": BatchState(values["state"])})


def _line(row: Any) -> BatchLine:
    values = row._asdict()
    return BatchLine(**{**values, "state": LineState(values["state"])})


# -- batches ---------------------------------------------------------------------------------------


def insert_batch(connection: Connection, batch: Batch) -> None:
    connection.execute(insert(batches).values(**asdict(batch)))


def get_batch(connection: Connection, batch_id: str) -> Batch | None:
    row = connection.execute(select(*_BATCH).where(batches.c.id == batch_id)).first()
    return _batch(row) if row else None


def list_batches(
    connection: Connection, *, owner: str, after: Batch | None, limit: int
) -> list[Batch]:
    """Newest first; ``after`` is the last one of the page before; no owner means anybody's."""
    moment, id_ = batches.c.created_at, batches.c.id
    query = select(*_BATCH).order_by(moment.desc(), id_.desc()).limit(limit)
    if owner:
        query = query.where(batches.c.owner == owner)
    if after:
        same = and_(moment == after.created_at, id_ < after.id)
        query = query.where(or_(moment < after.created_at, same))
    return [_batch(row) for row in connection.execute(query)]


def open_batches(connection: Connection, *, limit: int = 100) -> list[Batch]:
    """Those with something left to do, the oldest first."""
    query = select(*_BATCH).where(batches.c.state.in_(_OPEN)).order_by(batches.c.created_at)
    return [_batch(row) for row in connection.execute(query.limit(limit))]


def move(
    connection: Connection, batch: Batch, new: BatchState, *, now: datetime, **values: Any
) -> Batch | None:
    """Change the state, and say when; None if it is no longer what it was."""
    if new not in BATCH_MOVES[batch.state]:
        raise ValueError(f"a batch cannot go from {batch.state} to {new}")
    statement = update(batches).where(batches.c.id == batch.id, batches.c.state == batch.state)
    statement = statement.values(state=new, **{f"{new}_at": now}, **values)
    row = connection.execute(statement.returning(*_BATCH)).first()
    return _batch(row) if row else None


def set_counts(connection: Connection, batch_id: str, counts: dict[LineState, int]) -> None:
    statement = update(batches).where(batches.c.id == batch_id)
    done, failed = counts.get(LineState.SUCCEEDED, 0), counts.get(LineState.FAILED, 0)
    connection.execute(statement.values(completed=done, failed=failed))


def delete_old(connection: Connection, before: datetime) -> None:
    """Batches of that age, and their lines with them."""
    final = [state for state in BatchState if state.final]
    connection.execute(
        delete(batches).where(batches.c.created_at < before, batches.c.state.in_(final))
    )


# -- lines -----------------------------------------------------------------------------------------


def insert_lines(connection: Connection, batch_id: str, new: Sequence[BatchLine]) -> None:
    if new:
        connection.execute(insert(lines), [{**asdict(line), "batch_id": batch_id} for line in new])


def delete_lines(connection: Connection, batch_id: str) -> None:
    connection.execute(delete(lines).where(lines.c.batch_id == batch_id))


def count_lines(connection: Connection, batch_id: str) -> dict[LineState, int]:
    query = (
        select(lines.c.state, func.count())
        .where(lines.c.batch_id == batch_id)
        .group_by(lines.c.state)
    )
    return {LineState(state): count for state, count in connection.execute(query)}


def lines_in(
    connection: Connection, batch_id: str, state: LineState, *, limit: int
) -> list[BatchLine]:
    query = select(*_LINE).where(lines.c.batch_id == batch_id, lines.c.state == state)
    rows = connection.execute(query.order_by(lines.c.number).limit(limit))
    return [_line(row) for row in rows]


def lines_from(
    connection: Connection, batch_id: str, number: int, *, limit: int
) -> list[BatchLine]:
    """In their order, from a number on."""
    query = select(*_LINE).where(lines.c.batch_id == batch_id, lines.c.number >= number)
    rows = connection.execute(query.order_by(lines.c.number).limit(limit))
    return [_line(row) for row in rows]


def settled_lines(
    connection: Connection, batch_id: str
) -> list[tuple[int, JobState | None, dict[str, Any] | None]]:
    """Submitted lines whose job is final, or gone: number, the job's state and its error."""
    query = (
        select(lines.c.number, jobs.c.state, jobs.c.error)
        .select_from(lines.outerjoin(jobs, jobs.c.id == lines.c.job_id))
        .where(
            lines.c.batch_id == batch_id,
            lines.c.state == LineState.SUBMITTED,
            or_(jobs.c.id.is_(None), jobs.c.state.in_(_FINAL_JOBS)),
        )
    )
    return [
        (number, JobState(state) if state else None, error)
        for number, state, error in connection.execute(query)
    ]


def set_line(
    connection: Connection, batch_id: str, number: int, old: LineState, **values: Any
) -> bool:
    """False when the line is no longer in that state."""
    statement = update(lines).where(
        lines.c.batch_id == batch_id, lines.c.number == number, lines.c.state == old
    )
    return connection.execute(statement.values(**values)).rowcount == 1


def fail_waiting(connection: Connection, batch_id: str, error: dict[str, Any]) -> None:
    statement = update(lines).where(
        lines.c.batch_id == batch_id, lines.c.state == LineState.WAITING
    )
    connection.execute(statement.values(state=LineState.FAILED, error=error))
