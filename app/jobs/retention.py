"""How long things are kept: blobs of finished jobs, their rows, and blobs that belong to nobody."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app.clock import new_id
from app.db import queries
from app.db import retention as rows
from app.jobs.services import Services
from app.storage import StorageError, keys

ORPHAN_LEASE = "orphans"
LOOKED_UP_AT_ONCE = 500

log = structlog.get_logger()


def purge(services: Services, moment: datetime) -> None:
    """Delete the blobs, then mark the row, and later delete that: a crash between is made good."""
    with services.database.reading() as connection:
        expired = rows.purgeable(connection, moment)
    for job_id in expired:
        if _delete_blobs(services, job_id):
            with services.database.writing() as connection:
                rows.mark_purged(connection, job_id, moment)
    before = moment - timedelta(seconds=services.settings.tombstone_seconds)
    with services.database.writing() as connection:
        rows.delete_purged(connection, before)


def _delete_blobs(services: Services, job_id: str) -> bool:
    """Those of every attempt, not only of the one that succeeded."""
    try:
        for folder in keys.folders(job_id):
            for blob in list(services.store.list(folder)):
                services.store.delete(blob.key)
    except (StorageError, OSError) as error:
        log.warning("purge_failed", job_id=job_id, error=str(error))
        return False
    return True


def drop_orphans(services: Services, moment: datetime) -> None:
    """Delete blobs that belong to no job: their writer died before its row was made."""
    until = moment + timedelta(seconds=services.settings.orphan_round_seconds)
    with services.database.writing() as connection:
        # A new owner each time: the lease runs out by itself, and so paces the rounds.
        owner = new_id("orp")
        if not queries.take_lease(connection, ORPHAN_LEASE, owner=owner, now=moment, until=until):
            return
    before = moment - timedelta(seconds=services.settings.orphan_seconds)
    try:
        _drop_orphans(services, before)
    except (StorageError, OSError) as error:
        log.warning("orphans_kept", error=str(error))


def _drop_orphans(services: Services, before: datetime) -> None:
    old: dict[str, list[str]] = {}
    for folder in keys.FOLDERS:
        for blob in services.store.list(folder):
            if blob.modified_at < before:
                old.setdefault(keys.job_of(blob.key), []).append(blob.key)
            if len(old) >= LOOKED_UP_AT_ONCE:
                _drop_unknown(services, old)
                old = {}
    _drop_unknown(services, old)


def _drop_unknown(services: Services, blobs: dict[str, list[str]]) -> None:
    with services.database.reading() as connection:
        unknown = rows.unknown(connection, list(blobs))
    for job_id in unknown:
        for key in blobs[job_id]:
            services.store.delete(key)
        log.info("orphans_deleted", job_id=job_id, count=len(blobs[job_id]))
