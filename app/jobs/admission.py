"""How many callers may wait at once: the exact bound on synchronous jobs.

Counted from rows, so that it holds across front doors and whatever the broker lost: queued and
running synchronous jobs of a capability against ``audio_queue_depth`` plus its live workers, so
that an idle worker's slot is never refused.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from app.clock import now
from app.db import idempotency, queries
from app.db.records import IdempotencyKey, Job
from app.errors import Busy
from app.jobs.idempotency import find_twin
from app.jobs.services import Services
from app.states import Capability

RETRY_SECONDS = 2


def check(connection: Connection, services: Services, capability: Capability) -> None:
    """Raise Busy when every slot is taken. Exact only under ``queries.lock`` (see ``admit``)."""
    settings = services.settings
    seen_after = now() - timedelta(seconds=settings.worker_stale_seconds)
    workers = queries.live_workers(connection, seen_after)
    slots = settings.audio_queue_depth + sum(worker.offers(capability) for worker in workers)
    if queries.count_sync_jobs(connection, capability) >= slots:
        raise Busy(headers={"Retry-After": str(RETRY_SECONDS)})


def admit(
    connection: Connection, services: Services, job: Job, key: IdempotencyKey | None = None
) -> Job:
    """Insert the job if it may come in; check and insert are one transaction.

    Returns the job, or the one that has the same idempotency key: it never counts twice.
    """
    if key:
        queries.lock(connection, f"key:{key.owner}:{key.key}")
        if twin := find_twin(connection, key):
            return twin
    if job.sync:
        queries.lock(connection, f"admission:{job.capability}")
        check(connection, services, job.capability)
    queries.insert_job(connection, job)
    if key:
        idempotency.insert_key(connection, key, job.id)
    return job
