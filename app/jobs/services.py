"""The opened parts that jobs stand on: one bundle, made once in each process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from celery import Celery

from app.broker import Announcer, make_celery
from app.db.engine import Database
from app.db.schema import require_current
from app.settings import Settings
from app.storage import BlobStore, open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    database: Database
    store: BlobStore
    celery: Celery
    announcer: Announcer


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """Raises SchemaError or StorageError, which say what to do, when an engine is not as needed."""
    database = Database(settings.resolved_database_url)
    announcer = Announcer(settings.broker_url, settings.broker_prefix)
    try:
        require_current(database)
        store = open_store(settings.storage_url, settings.storage_dir)
        store.check()
        yield Services(
            settings=settings,
            database=database,
            store=store,
            celery=make_celery(
                settings.broker_url,
                settings.broker_prefix,
                visibility_seconds=settings.broker_visibility_seconds,
                restore_seconds=settings.broker_restore_seconds,
            ),
            announcer=announcer,
        )
    finally:
        announcer.close()
        database.close()
