"""The SQL of the numbers that an operator watches. None of it grows with the finished jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from app.db.tables import deliveries, jobs
from app.states import Capability, JobState, Kind, Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job that has reached a final state."""

    kind: Kind
    state: JobState
    created_at: datetime
    started_at: datetime | None
    attempt: int
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The jobs of one state and queue."""

    state: JobState
    capability: Capability
    lane: Lane
    count: int
    oldest: datetime


def finished_between(
    connection: Connection, after: datetime, until: datetime
) -> Iterator[Finished]:
    query = select(
        jobs.c.kind,
        jobs.c.state,
        jobs.c.created_at,
        jobs.c.started_at,
        jobs.c.attempt,
        jobs.c.metrics,
    ).where(jobs.c.finished_at > after, jobs.c.finished_at <= until)
    for row in connection.execute(query):
        yield Finished(
            kind=Kind(row.kind),
            state=JobState(row.state),
            created_at=row.created_at,
            started_at=row.started_at,
            attempt=row.attempt,
            metrics=row.metrics or {},
        )


def waiting(connection: Connection) -> list[Waiting]:
    columns = (jobs.c.state, jobs.c.capability, jobs.c.lane)
    query = (
        select(*columns, func.count().label("count"), func.min(jobs.c.created_at).label("oldest"))
        .where(jobs.c.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .group_by(*columns)
    )
    return [_waiting(row) for row in connection.execute(query)]


def _waiting(row: Any) -> Waiting:
    return Waiting(
        state=JobState(row.state),
        capability=Capability(row.capability),
        lane=Lane(row.lane),
        count=row.count,
        oldest=row.oldest,
    )


def earliest_lease(connection: Connection) -> datetime | None:
    """When the first lease of a running job ends."""
    query = select(func.min(jobs.c.lease_expires_at)).where(jobs.c.state == JobState.RUNNING)
    found: datetime | None = connection.execute(query).scalar_one()
    return found


def deliveries_by_state(connection: Connection) -> dict[str, int]:
    query = select(deliveries.c.state, func.count()).group_by(deliveries.c.state)
    return {row[0]: row[1] for row in connection.execute(query)}
