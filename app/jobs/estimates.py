"""Where a queued job stands and how long it will wait, from what such work has taken lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from app.clock import now
from app.db import estimates as rows
from app.db import queries
from app.db.records import Job
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
        count, cost = rows.ahead(connection, job)
        live = queries.live_workers(connection, seen_after)
        workers = sum(worker.offers(job.capability) for worker in live)
        pace = rows.seconds_per_cost(connection, job.capability) if workers else None
    # The work ahead at the pace of late, shared among the workers.
    wait = None if pace is None else round(pace * cost / workers, 1)
    return Estimate(position=count + 1, wait_seconds=wait)
