"""Every revision, with rows in it, up to this version and back, on both databases."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, inspect, text

from app.clock import now
from app.db import queries, schema, windows
from app.db.engine import Database
from app.db.migration import configuration, migrate
from app.db.schema import SchemaError, require_current
from app.db.tables import metadata
from app.states import JobState, Kind

SCRIPTS = ScriptDirectory.from_config(configuration())
REVISIONS = [script.revision for script in reversed(list(SCRIPTS.walk_revisions()))]

# What the first revision asks for; a later one must bring a default for whatever it adds.
ROWS = {
    "jobs": {
        "id": "job_1",
        "kind": "speech",
        "capability": "tts",
        "lane": "bulk",
        "state": "running",
        "options": {"input": "Grüße", "speed": 1.5},
        "created_at": now(),
        "worker": "wkr_1",
        "attempt": 2,
    },
    "windows": {
        "job_id": "job_1",
        "number": 0,
        "start_sample": 0,
        "end_sample": 16_000,
        "attempt": 1,
        "transcript": {"text": "hello"},
    },
    "workers": {
        "id": "wkr_1",
        "host": "here",
        "pid": 7,
        "state": "ready",
        "started_at": now(),
        "seen_at": now(),
        "models": [{"name": "m", "family": "f", "capabilities": ["tts"], "voices": []}],
    },
    "leases": {"name": "sweep", "owner": "swp_1", "expires_at": now()},
}


def fill(database: Database) -> None:
    tables = MetaData()
    with database.writing() as connection:
        tables.reflect(connection)
        for name, row in ROWS.items():
            connection.execute(tables.tables[name].insert().values(**row))


def tables(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


@pytest.fixture
def database(url: str):
    database = Database(url)
    yield database
    database.close()


@pytest.mark.parametrize("revision", REVISIONS)
def test_rows_of_every_revision_survive_the_way_up_and_down(
    database: Database, revision: str
) -> None:
    migrate(database, revision)
    fill(database)
    migrate(database)
    require_current(database)
    with database.reading() as connection:
        job = queries.get_job(connection, "job_1")
        rows = windows.get(connection, "job_1")
        workers = queries.live_workers(connection, ROWS["workers"]["seen_at"])
    assert job is not None
    assert (job.kind, job.state, job.attempt) == (Kind.SPEECH, JobState.RUNNING, 2)
    assert job.options == {"input": "Grüße", "speed": 1.5}
    assert job.created_at == ROWS["jobs"]["created_at"]
    assert [window.transcript for window in rows] == [{"text": "hello"}]
    assert [worker.pid for worker in workers] == [7]
    if revision != REVISIONS[-1]:
        migrate(database, revision)
    with database.reading() as connection:
        assert connection.execute(text("SELECT worker FROM jobs")).scalar_one() == "wkr_1"
        assert connection.execute(text("SELECT count(*) FROM windows")).scalar_one() == 1
    migrate(database, "base")
    assert tables(database) == set()


def test_migrations_make_the_tables_that_the_queries_use(database: Database) -> None:
    migrate(database)
    with database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []
    assert tables(database) == set(metadata.tables)


def test_the_revisions_are_known_without_alembic(database: Database) -> None:
    assert schema.revisions() == tuple(REVISIONS)
    assert schema.current(database) is None
    for revision in REVISIONS:
        migrate(database, revision)
        assert schema.current(database) == revision


def test_migrating_twice_does_nothing(database: Database) -> None:
    migrate(database)
    migrate(database)
    require_current(database)


@pytest.mark.parametrize("revision", [None, *REVISIONS[:-1]])
def test_another_schema_is_refused_with_the_command_to_run(
    database: Database, revision: str | None
) -> None:
    if revision:
        migrate(database, revision)
    with pytest.raises(SchemaError, match=f"at schema {revision or 'none'}.*`voxqueue migrate`"):
        require_current(database)


def test_a_revision_that_is_not_there_is_named(database: Database) -> None:
    with pytest.raises(SchemaError, match=f"no schema 9999; there are .*{REVISIONS[-1]}"):
        migrate(database, "9999")


def test_a_schema_of_the_future_is_refused(database: Database) -> None:
    migrate(database)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for call in (require_current, migrate):
        with pytest.raises(SchemaError, match="9999, which this version does not know"):
            call(database)
