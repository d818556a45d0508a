"""The SQL of docs/operating.md that makes ``jobs`` a partitioned table, and a job's life on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.db import counts, deliveries, idempotency, queries, retention
from app.db.engine import Database
from app.db.migration import migrate
from app.db.records import IdempotencyKey, Job, WindowRow
from app.db.schema import require_current
from app.states import JobState, Kind, Lane
from tests.harness import ROOT

BEFORE = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
AFTER = datetime(2027, 1, 1, tzinfo=UTC)
KEY = IdempotencyKey(owner="key_1", key="k", fingerprint="f")


def sql(number: int) -> list[str]:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    block = re.findall(r"^```sql\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[number]
    return [statement for statement in block.split(";") if statement.strip()]


def run(database: Database, statements: list[str]) -> None:
    with database.writing() as connection:
        for statement in statements:
            connection.execute(text(statement))


def job(number: int, created_at: datetime, **values: Any) -> Job:
    return Job(
        id=f"job_{number:032x}",
        kind=Kind.TRANSCRIPTION,
        lane=Lane.BULK,
        created_at=created_at,
        enqueued_at=created_at,
        **values,
    )


OLD = job(1, BEFORE)


@pytest.fixture
def database(postgres: Any) -> Iterator[Database]:
    with postgres.database() as url:
        database = Database(url)
        migrate(database)
        with database.writing() as connection:
            queries.insert_job(connection, OLD)
        run(database, sql(0))
        yield database
        database.close()


def partition(database: Database, job_id: str) -> str:
    query = text("SELECT tableoid::regclass::text FROM jobs WHERE id = :id")
    with database.reading() as connection:
        return str(connection.execute(query, {"id": job_id}).scalar_one())


def test_rows_lie_in_their_month(database: Database) -> None:
    require_current(database)
    new = job(2, AFTER)
    with database.writing() as connection:
        queries.insert_job(connection, new)
    assert partition(database, OLD.id) == "jobs_before"
    assert partition(database, new.id) == "jobs_2027_01"
    with database.reading() as connection:
        assert [found.id for found in queries.list_jobs(connection, limit=9)] == [new.id, OLD.id]


@pytest.mark.parametrize("created_at", [BEFORE, AFTER])
def test_a_job_s_life(database: Database, created_at: datetime) -> None:
    """Every move is still a compare-and-set that one of two wins, wherever the row lies."""
    one = job(3, created_at, callback_url="https://example.org/hook")
    until = AFTER + timedelta(seconds=20)
    window = WindowRow(number=0, start_sample=0, end_sample=1, model="m", transcript={})
    with database.writing() as connection:
        queries.insert_job(connection, one)
        idempotency.insert_key(connection, KEY, one.id)
    with database.writing() as connection:
        taken = queries.claim(connection, one.id, worker="w", now=AFTER, lease_until=until)
        again = queries.claim(connection, one.id, worker="v", now=AFTER, lease_until=until)
    assert taken is not None
    assert again is None
    with database.writing() as connection:
        queries.checkpoint(connection, taken, lease_until=until, progress=0.5, finished=[window])
        assert idempotency.find(connection, KEY) == (one.id, "f")
        done = queries.move(
            connection,
            one.id,
            JobState.RUNNING,
            JobState.SUCCEEDED,
            fence=1,
            finished_at=AFTER,
            expires_at=AFTER,
        )
    assert done is not None
    later = AFTER + timedelta(days=1)
    with database.writing() as connection:
        assert [item.state for item in counts.finished_between(connection, BEFORE, later)] == [
            JobState.SUCCEEDED
        ]
        connection.execute(text("UPDATE deliveries SET state = 'delivered'"))
        assert retention.purgeable(connection, later) == [one.id]
        retention.mark_purged(connection, one.id, later)
        assert connection.execute(text("SELECT count(*) FROM windows")).scalar_one() == 0
        assert idempotency.find(connection, KEY) is None


def test_a_month_that_is_over_is_dropped_with_what_hangs_on_it(database: Database) -> None:
    new = job(4, AFTER, callback_url="https://example.org/hook")
    with database.writing() as connection:
        queries.insert_job(connection, new)
        deliveries.insert_delivery(connection, new)
        deliveries.insert_delivery(connection, OLD)
        idempotency.insert_key(connection, KEY, new.id)
    run(database, sql(1))
    with database.reading() as connection:
        assert queries.get_job(connection, new.id) is None
        assert queries.get_job(connection, OLD.id) is not None
        assert counts.deliveries_by_state(connection) == {"pending": 1}
        assert idempotency.find(connection, KEY) is None
