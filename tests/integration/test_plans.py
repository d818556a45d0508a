"""No statement of the hot path reads all of ``jobs`` or ``shares``, however many are finished.

Each function runs against a filled database; what it sends is caught and explained with the very
parameters that it was sent with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.clock import now
from app.db import (
    batches,
    deliveries,
    estimates,
    idempotency,
    queries,
    recall,
    retention,
    shares,
)
from app.db.engine import Database
from app.db.migration import migrate
from app.db.records import IdempotencyKey, Job
from app.db.tables import jobs
from app.db.tables import shares as shares_table
from app.states import Capability, JobState, Kind, Lane

FINISHED, QUEUED, RUNNING = 10_000, 50, 5
OLD = now() - timedelta(days=1)


def job(number: int, state: JobState, **values: Any) -> Job:
    return Job(
        id=f"job_{number:032x}",
        kind=Kind.TRANSCRIPTION,
        lane=Lane.BULK,
        state=state,
        sync=state is JobState.SUCCEEDED,
        created_at=OLD + timedelta(seconds=number / 10),
        enqueued_at=OLD,
        **values,
    )


def fill(database: Database) -> None:
    done = [
        job(
            n,
            JobState.SUCCEEDED,
            attempt=1,
            metrics={"run_seconds": 1.0},
            cost=1.0,
            expires_at=OLD if n < 50 else now() + timedelta(days=6),
            purged_at=OLD if n < 40 else None,
        )
        for n in range(FINISHED)
    ]
    waiting = [job(FINISHED + n, JobState.QUEUED) for n in range(QUEUED)]
    lease = now() + timedelta(seconds=20)
    taken = [
        job(10 * FINISHED + n, JobState.RUNNING, attempt=1, worker="w", lease_expires_at=lease)
        for n in range(RUNNING)
    ]
    rows = [asdict(one) | {"capability": one.capability} for one in [*done, *waiting, *taken]]
    ended = [
        {"job_id": one.id, "attempt": 1, "number": 0, "worker": "w", "lease_expires_at": OLD}
        for one in [*done, *taken]
    ]
    with database.writing() as connection:
        connection.execute(jobs.insert(), rows)
        connection.execute(shares_table.insert(), ended)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('plans')}/db.sqlite"
        else:
            url = stack.enter_context(request.getfixturevalue("postgres").database())
        database = Database(url)
        stack.callback(database.close)
        migrate(database)
        fill(database)
        yield database


SOON, LATER = now() - timedelta(seconds=5), now() + timedelta(seconds=20)
WAITING = job(FINISHED, JobState.QUEUED)
TAKEN = job(10 * FINISHED, JobState.RUNNING, attempt=1)
DONE = job(500, JobState.SUCCEEDED, attempt=1)
STT = Capability.STT

CALLS: dict[str, Callable[[Connection], Any]] = {
    "get": lambda c: queries.get_job(c, DONE.id),
    "insert": lambda c: queries.insert_job(c, replace(WAITING, id="job_new")),
    "claim": lambda c: queries.claim(c, WAITING.id, worker="w", now=now(), lease_until=LATER),
    "renew": lambda c: queries.renew_lease(c, TAKEN, lease_until=LATER),
    "checkpoint": lambda c: queries.checkpoint(c, TAKEN, lease_until=LATER, progress=0.5),
    "finish": lambda c: queries.move(c, TAKEN.id, JobState.RUNNING, JobState.SUCCEEDED, fence=1),
    "requeue": lambda c: queries.requeue(c, TAKEN),
    "its like": lambda c: queries.list_like(c, TAKEN, now(), longest=30.0, most=32),
    "sent": lambda c: queries.mark_sent(c, WAITING.id, now()),
    "cancel": lambda c: queries.request_cancel(c, TAKEN.id),
    "admission": lambda c: queries.count_sync_jobs(c, STT),
    "make room": lambda c: queries.count_interactive(c, [STT]),
    "busy workers": queries.busy_workers,
    "due": lambda c: queries.count_due(c, [STT], now(), most=2),
    "bury": lambda c: queries.bury_worker(c, host="h", pid=1, now=now()),
    "take a share": lambda c: shares.take(c, TAKEN, 8, worker="w", lease_until=LATER),
    "take a share over": lambda c: shares.take_over(c, TAKEN, 0, worker="w", now=now()),
    "renew a share": lambda c: shares.renew(c, TAKEN, worker="w", now=now(), lease_until=LATER),
    "end a share": lambda c: shares.end(c, TAKEN, 0, worker="w", now=now()),
    "shares in hand": lambda c: shares.in_hand(c, TAKEN, now()),
    "helpers": lambda c: shares.busy_workers(c, now()),
    "lost": lambda c: queries.lost_jobs(c, now()),
    "unsent": lambda c: queries.unsent_jobs(c, now()),
    "count sent": queries.count_sent,
    "sent before": lambda c: queries.sent_jobs(c, STT, Lane.BULK, before=SOON, limit=100),
    "overdue": lambda c: queries.overdue_jobs(c, now()),
    "purgeable": lambda c: retention.purgeable(c, now()),
    "delete purged": lambda c: retention.delete_purged(c, OLD - timedelta(days=9)),
    "mark purged": lambda c: retention.mark_purged(c, DONE.id, now()),
    "ahead": lambda c: estimates.ahead(c, WAITING),
    "speed": lambda c: estimates.seconds_per_cost(c, STT),
    "list": lambda c: queries.list_jobs(c, limit=20),
    "list on": lambda c: queries.list_jobs(c, after=DONE, limit=20),
    "list failed": lambda c: queries.list_jobs(c, state=JobState.FAILED, limit=20),
    "deliveries": lambda c: deliveries.due(c, now(), limit=10),
    "recall": lambda c: recall.finished(c, TAKEN, "k" * 64),
    "underway": lambda c: recall.is_underway(c, TAKEN, "k" * 64),
    "settled lines": lambda c: batches.settled_lines(c, "batch_none"),
    "idempotency": lambda c: idempotency.find(
        c, IdempotencyKey(owner="", key="k", fingerprint="f")
    ),
}


def sent(connection: Connection, call: Callable[[Connection], Any]) -> list[tuple[str, Any]]:
    """The statements that a call sends."""
    found: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    call(connection)
    event.remove(connection, "before_cursor_execute", note)
    return [item for item in found if not item[0].startswith(("BEGIN", "SAVEPOINT"))]


def plan(connection: Connection, statement: str, parameters: Any) -> str:
    prefix = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
    rows = connection.exec_driver_sql(prefix + statement, parameters)
    return "\n".join(str(row[-1]) for row in rows)


def reads_all(line: str) -> bool:
    """A plan's line that goes through a growing table, or a whole index of it."""
    return any(
        f"Seq Scan on {table}" in line or line.startswith(f"SCAN {table}")
        for table in ("jobs", "shares")
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_statement_reads_what_it_needs(filled: Database, name: str) -> None:
    with filled.engine.connect() as connection, connection.begin() as transaction:
        for statement, parameters in sent(connection, CALLS[name]):
            found = plan(connection, statement, parameters)
            # A page of the newest jobs walks an index in its order and stops after the page.
            walks = name.startswith("list") and "ix_jobs_created_at_id" in found
            assert walks or not any(reads_all(line) for line in found.splitlines()), found
        transaction.rollback()
