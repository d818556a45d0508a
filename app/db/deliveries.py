"""The SQL of webhook deliveries: an outbox row for each final state that somebody is to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from app.clock import new_id
from app.db.records import Delivery, Job
from app.db.tables import deliveries
from app.states import DeliveryState

_DELIVERY = [deliveries.c[field.name] for field in fields(Delivery)]


def _delivery(row: Any) -> Delivery:
    values = row._asdict()
    return Delivery(**{**values, "state": DeliveryState(values["state"])})


def insert_delivery(connection: Connection, job: Job) -> None:
    due = job.finished_at or job.created_at
    delivery = Delivery(id=new_id("msg"), job_id=job.id, run_after=due)
    connection.execute(insert(deliveries).values(**asdict(delivery)))


def of_job(connection: Connection, job_id: str) -> list[Delivery]:
    query = select(*_DELIVERY).where(deliveries.c.job_id == job_id)
    return [_delivery(row) for row in connection.execute(query)]


def due(connection: Connection, now: datetime, *, limit: int) -> list[Delivery]:
    query = (
        select(*_DELIVERY)
        .where(deliveries.c.state == DeliveryState.PENDING, deliveries.c.run_after <= now)
        .order_by(deliveries.c.run_after)
        .limit(limit)
    )
    return [_delivery(row) for row in connection.execute(query)]


def claim(connection: Connection, delivery: Delivery, *, until: datetime) -> bool:
    """Count one attempt, and keep every other process off the delivery until then."""
    statement = update(deliveries).where(
        deliveries.c.id == delivery.id,
        deliveries.c.state == DeliveryState.PENDING,
        deliveries.c.attempts == delivery.attempts,
    )
    values = {"attempts": delivery.attempts + 1, "run_after": until}
    return connection.execute(statement.values(**values)).rowcount == 1


def record(
    connection: Connection,
    delivery: Delivery,
    *,
    state: DeliveryState,
    run_after: datetime,
    log: Sequence[dict[str, Any]],
) -> None:
    """How the claimed attempt went."""
    statement = update(deliveries).where(
        deliveries.c.id == delivery.id, deliveries.c.attempts == delivery.attempts + 1
    )
    connection.execute(statement.values(state=state, run_after=run_after, log=list(log)))
