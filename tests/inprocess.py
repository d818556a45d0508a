"""The parts that jobs stand on, without another process: SQLite, a directory, a queue in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import event

from app.broker import Announcer, Piece, make_celery, queue_names
from app.clock import new_id, now
from app.db import queries
from app.db.engine import Database
from app.db.migration import migrate
from app.db.records import Job
from app.jobs.services import Services
from app.settings import Settings
from app.states import Capability, Kind
from app.storage import open_store
from tests import places


class Ear(Announcer):
    """Remembers what was announced."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.told: list[tuple[str, Piece]] = []

    def announce(self, job_id: str) -> None:
        self.heard.append(job_id)

    def tell(self, job_id: str, piece: Piece) -> None:
        self.told.append((job_id, piece))

    def ping(self) -> None:
        pass

    def close(self) -> None:
        pass


def _hurry(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # no test here cuts the power


def make_services(data: Path, **changes: Any) -> Services:
    settings = Settings(**{"data_dir": data, **places.settings(data), **changes})
    database = Database(settings.resolved_database_url)
    if database.engine.dialect.name == "sqlite":
        event.listen(database.engine, "connect", _hurry)
    migrate(database)
    celery = make_celery("memory://", "")
    with celery.connection_for_write() as connection:  # all of a process share that memory
        for name in queue_names(list(Capability)):
            connection.default_channel.queue_purge(name)
    return Services(
        settings=settings,
        database=database,
        store=open_store(settings.storage_url, settings.storage_dir),
        celery=celery,
        announcer=Ear(),
    )


def close(services: Services) -> None:
    services.celery.close()
    services.database.close()
    places.leave(services.settings.data_dir)


def add_job(services: Services, **values: Any) -> Job:
    moment = now()
    base = {
        "id": new_id("job"),
        "kind": Kind.SPEECH,
        "lane": "interactive",
        "created_at": moment,
        "enqueued_at": moment,
    }
    job = Job(**{**base, **values})
    with services.database.writing() as connection:
        queries.insert_job(connection, job)
    return job


def get_job(services: Services, job_id: str) -> Job:
    with services.database.reading() as connection:
        job = queries.get_job(connection, job_id)
    assert job is not None
    return job
