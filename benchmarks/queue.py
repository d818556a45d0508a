"""What the queue itself costs, on PostgreSQL with a model that does nothing.

``python -m benchmarks.queue [--rows 1000000]``: submits a second and their p95 with 50 clients at
once; the p95 of 200 pollers over 30 s; what a submit, a claim and a poll cost with a thousand and
with a million finished jobs in the table.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from sqlalchemy import text

from app.clock import new_id, now
from app.db import queries
from app.db.engine import Database
from app.db.records import Job
from app.db.migration import migrate
from app.states import Kind, Lane
from tests import engines
from tests.harness import Service, fake_model

CLIENTS, SUBMIT_SECONDS = 50, 15.0
POLLERS, POLL_SECONDS = 200, 30.0
FEW, PROBES = 1_000, 2_000
SPEECH = {"model": "m", "input": "Hello."}
ASYNC = {"Prefer": "respond-async"}

Call = Callable[[httpx2.AsyncClient, int], Awaitable[object]]

FILL = """
INSERT INTO jobs (id, kind, capability, lane, state, options, created_at, enqueued_at, started_at,
                  finished_at, expires_at, attempt, metrics, cost, output_key, progress)
SELECT 'job_' || md5(n::text), 'speech', 'tts',
       CASE n % 2 WHEN 0 THEN 'bulk' ELSE 'interactive' END,
       CASE n % 50 WHEN 0 THEN 'failed' ELSE 'succeeded' END, '{"input": "Hello."}', t, t, t, t,
       now() + interval '7 days', 1, '{"run_seconds": 1.0, "audio_seconds": 10.0}', 1, 'out/x', 1
FROM (SELECT n, now() - (:last - n) * interval '0.5 second' AS t
      FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS n) AS numbered
"""


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] * 1000


async def clients(url: str, count: int, seconds: float, call: Call, pause: float) -> list[float]:
    """The times that requests of so many clients at once took."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)

    async def client(session: httpx2.AsyncClient, number: int) -> None:
        await asyncio.sleep(pause * number / count)
        while (started := time.perf_counter()) < end:
            await call(session, number)
            taken.append(time.perf_counter() - started)
            await asyncio.sleep(max(0.0, pause - taken[-1]))

    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=60) as session:
        await asyncio.gather(*(client(session, number) for number in range(count)))
    return taken


def over_http(database_url: str, data: Path) -> None:
    model = str(fake_model(data / "model" / "fake"))
    service = Service(
        data, "--stt-model", model, "--tts-model", model, VOXQUEUE_DATABASE_URL=database_url
    )
    jobs: list[str] = []

    async def submit(session: httpx2.AsyncClient, _: int) -> None:
        answer = await session.post("/v1/audio/speech", json=SPEECH, headers=ASYNC)
        answer.raise_for_status()
        jobs.append(answer.headers["location"])

    async def poll(session: httpx2.AsyncClient, number: int) -> None:
        (await session.get(jobs[number % len(jobs)])).raise_for_status()

    try:
        taken = asyncio.run(clients(service.url, CLIENTS, SUBMIT_SECONDS, submit, 0.0))
        rate = len(taken) / SUBMIT_SECONDS
        print(f"submit, {CLIENTS} clients: {rate:.0f}/s, p95 {p95(taken):.0f} ms")
        taken = asyncio.run(clients(service.url, POLLERS, POLL_SECONDS, poll, 1.0))
        print(f"poll, {POLLERS} pollers once a second: {len(taken)} polls, p95 {p95(taken):.0f} ms")
    except httpx2.HTTPError:
        print(service.log[-3000:])
        raise
    finally:
        service.stop()


def fill(database: Database, first: int, last: int) -> None:
    with database.writing() as connection:
        connection.execute(text(FILL), {"first": first, "last": last})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE jobs"))
        connection.execute(text("CHECKPOINT"))


def costs(database: Database) -> dict[str, float]:
    """Median milliseconds of each step, one after the other."""
    ids = [new_id("job") for _ in range(PROBES)]

    def submit(job_id: str) -> None:
        job = Job(id=job_id, kind=Kind.SPEECH, lane=Lane.INTERACTIVE, sync=True, created_at=now())
        with database.writing() as connection:
            queries.lock(connection, "admission:tts")
            queries.count_sync_jobs(connection, job.capability)
            queries.insert_job(connection, job)

    def claim(job_id: str) -> None:
        with database.writing() as connection:
            queries.claim(connection, job_id, worker="wkr", now=now(), lease_until=now())

    def poll(job_id: str) -> None:
        with database.reading() as connection:
            queries.get_job(connection, job_id)

    found = {"submit": 0.0, "claim": 0.0, "poll": 0.0}
    times: dict[str, list[float]] = {name: [] for name in found}
    for job_id in ids:
        for name, step in (("submit", submit), ("claim", claim), ("poll", poll)):
            started = time.perf_counter()
            step(job_id)
            times[name].append(time.perf_counter() - started)
        with database.writing() as connection:
            connection.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": job_id})
    return {name: statistics.median(values) * 1000 for name, values in times.items()}


def by_rows(database_url: str, rows: int) -> None:
    database = Database(database_url)
    migrate(database)
    fill(database, 1, FEW)
    costs(database)  # warm: connections, plans, the files of the table
    few = costs(database)
    started = time.perf_counter()
    fill(database, FEW + 1, rows)
    print(f"filled {rows} rows in {time.perf_counter() - started:.0f} s")
    many = costs(database)
    for name in few:
        before, after = few[name], many[name]
        print(f"{name}: {before:.2f} ms with {FEW} rows, {after:.2f} ms with {rows}:", end=" ")
        print(f"{after / before:.2f} times")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="0: HTTP only")
    rows = parser.parse_args().rows
    with engines.postgres() as postgres, tempfile.TemporaryDirectory() as data:
        with postgres.database() as url:
            over_http(url, Path(data))
        if rows:
            with postgres.database() as url:
                by_rows(url, rows)


if __name__ == "__main__":
    main()
