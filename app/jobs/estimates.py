"""Where a queued job stands and how long it will wait, from what such work has taken lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from app.clock import now
from app.db import estimates as rows
from app.db import queries
from app.db.records import Job, Worker
from app.jobs.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    position: int
    """1: the next to be taken."""
    wait_seconds: float | None
    """Until a worker takes it; None before anything of its kind has been finished, or while
    there is no worker."""


def estimate(services: Services, job: Job) -> Estimate:
    seen_after = now() - timedelta(seconds=services.settings.worker_stale_seconds)
    with services.database.reading() as connection:
        position = rows.count_ahead(connection, job) + 1
        live = queries.live_workers(connection, seen_after)
        workers = [worker for worker in live if worker.offers(job.capability)]
        wait = _wait(connection, job, workers) if workers else None
    return Estimate(position=position, wait_seconds=None if wait is None else round(wait, 1))


def _wait(connection: Connection, job: Job, workers: list[Worker]) -> float | None:
    """The work ahead at the pace of late, shared among the workers."""
    pace = rows.seconds_per_cost(connection, job.capability)
    if pace is None:
        return None
    return pace * rows.cost_ahead(connection, job) / len(workers)
