"""Everything once on SQLite and once on a real PostgreSQL, with a real Valkey beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.engine import Database
from app.db.migration import migrate
from app.jobs.services import Services, open_services
from app.settings import Settings
from tests import engines
from tests.engines import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with engines.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with engines.valkey(tmp_path_factory.mktemp("valkey")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a new, empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/db.sqlite"
        return
    with request.getfixturevalue("postgres").database() as url:
        yield url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    migrate(database)
    yield database
    database.close()


@pytest.fixture
def services(database: Database, valkey: str, tmp_path: Path) -> Iterator[Services]:
    settings = Settings(
        data_dir=tmp_path,
        database_url=database.url,
        broker_url=valkey,
        broker_prefix=f"{tmp_path.name}:",
        audio_queue_depth=3,
    )
    with open_services(settings) as services:
        yield services
