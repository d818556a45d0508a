"""The sweeper: what puts right whatever a death left behind. One process at a time does it.

It gives lost jobs to other workers, rings again for jobs whose message is gone, expires what nobody
began in time, and has retention do its part.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app import broker
from app.clock import now
from app.db import queries
from app.db.tables import jobs
from app.jobs import files, lifecycle, retention
from app.jobs.errors import WORKER_LOST
from app.jobs.services import Services
from app.states import Capability, Lane

LEASE = "sweep"
LEASE_ROUNDS = 5  # of the sweeper's own pause: its lease outlives a slow round
FORGET_WORKER_SECONDS = 3600.0  # a worker row unseen for so long is deleted
RESENT_AT_ONCE = 500  # messages of one queue in one round; the next round goes on

log = structlog.get_logger()


def sweep(services: Services, owner: str) -> bool:
    """One round; False when another process holds the sweep."""
    moment = now()
    until = moment + timedelta(seconds=LEASE_ROUNDS * services.settings.sweep_seconds)
    with services.database.writing() as connection:
        if not queries.take_lease(connection, LEASE, owner=owner, now=moment, until=until):
            return False
    recover(services, moment)
    expire(services, moment)
    try:
        send(services, moment)
        resend(services, moment)
    except broker.BrokerDown as error:
        log.warning("broker_down", error=str(error))
    retention.purge(services, moment)
    retention.drop_orphans(services, moment)
    files.sweep(services, moment)
    forget_workers(services, moment)
    return True


def recover(services: Services, moment: datetime) -> None:
    """Put jobs whose worker is gone back into the queue, or give up after too many losses."""
    with services.database.reading() as connection:
        lost = queries.lost_jobs(connection, moment)
    for job in lost:
        lifecycle.lose(services, job, WORKER_LOST, jobs.c.lease_expires_at < moment)


def expire(services: Services, moment: datetime) -> None:
    with services.database.reading() as connection:
        overdue = queries.overdue_jobs(connection, moment)
    for job in overdue:
        lifecycle.expire(services, job)


def send(services: Services, moment: datetime) -> None:
    """Ring for jobs that are due and were not rung for: the broker was away, or they had to wait.

    Raises BrokerDown.
    """
    with services.database.reading() as connection:
        unsent = queries.unsent_jobs(connection, moment)
    for job in unsent:
        lifecycle.send(services, job)


def resend(services: Services, moment: datetime) -> None:
    """Ring again where the broker has lost messages: it has fewer than there are queued jobs.

    A long healthy backlog is left alone. Raises BrokerDown.
    """
    with services.database.reading() as connection:
        expected = queries.count_sent(connection)
    for (capability, lane), count in expected.items():
        queue = broker.queue_name(capability, lane)
        missing = count - broker.count_messages(services.celery, queue)
        if missing > 0:
            _resend(services, capability, lane, moment, missing)


def _resend(
    services: Services, capability: Capability, lane: Lane, moment: datetime, missing: int
) -> None:
    """Those not rung for lately: a message just taken off the queue may not be claimed yet."""
    before = moment - timedelta(seconds=services.settings.resend_seconds)
    limit = min(missing, RESENT_AT_ONCE)
    with services.database.reading() as connection:
        silent = queries.sent_jobs(connection, capability, lane, before=before, limit=limit)
    for job in silent:
        lifecycle.send(services, job)
    if silent:
        log.info("jobs_resent", capability=capability, lane=lane, count=len(silent))


def forget_workers(services: Services, moment: datetime) -> None:
    before = moment - timedelta(seconds=FORGET_WORKER_SECONDS)
    with services.database.writing() as connection:
        queries.delete_stale_workers(connection, before)
