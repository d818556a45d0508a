"""The SQL of jobs, workers and leases, run in the caller's transaction; returns plain values.

All changes of a job's state go through ``move``: a compare-and-set on the state and, for a running
job, on the attempt that fences it. Of any number of processes that try the same move one succeeds;
the others are told None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    text,
    update,
)

from app.db import deliveries, windows
from app.db.records import Job, LoadedModel, WindowRow, Worker
from app.db.tables import jobs, leases, shares, workers
from app.states import MOVES, Capability, JobState, Kind, Lane

_JOB = [jobs.c[field.name] for field in fields(Job)]
_WAITING = (JobState.QUEUED, JobState.RUNNING)


class IllegalMove(ValueError):
    """A move that the state machine does not have: a fault of this program."""


def _job(row: Any) -> Job:
    values = row._asdict()
    values["kind"] = Kind(values["kind"])
    values["lane"] = Lane(values["lane"])
    values["state"] = JobState(values["state"])
    return Job(**values)


# -- jobs ------------------------------------------------------------------------------------------


def insert_job(connection: Connection, job: Job) -> None:
    connection.execute(insert(jobs).values(**asdict(job), capability=job.capability))


def get_job(connection: Connection, job_id: str) -> Job | None:
    row = connection.execute(select(*_JOB).where(jobs.c.id == job_id)).first()
    return _job(row) if row else None


def list_jobs(
    connection: Connection,
    *,
    state: JobState | None = None,
    kind: Kind | None = None,
    batch_id: str | None = None,
    owner: str = "",
    after: Job | None = None,
    limit: int,
) -> list[Job]:
    """Newest first; ``after`` is the last job of the page before."""
    query = select(*_JOB).order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit)
    if state:
        query = query.where(jobs.c.state == state)
    if kind:
        query = query.where(jobs.c.kind == kind)
    if owner:
        query = query.where(jobs.c.owner == owner)
    if batch_id:
        query = query.where(jobs.c.batch_id == batch_id)
    if after:
        earlier = and_(jobs.c.created_at == after.created_at, jobs.c.id < after.id)
        query = query.where(or_(jobs.c.created_at < after.created_at, earlier))
    return [_job(row) for row in connection.execute(query)]


def move(
    connection: Connection,
    job_id: str,
    old: JobState,
    new: JobState,
    *where: ColumnElement[bool],
    fence: int | None = None,
    **values: Any,
) -> Job | None:
    """Change the state if it is still ``old`` and the attempt still ``fence``; None if not.

    A final state of a job with a callback leaves the delivery to make in the same transaction.
    """
    if new not in MOVES[old]:
        raise IllegalMove(f"a job cannot go from {old} to {new}")
    statement = update(jobs).where(jobs.c.id == job_id, jobs.c.state == old, *where)
    if fence is not None:
        statement = statement.where(jobs.c.attempt == fence)
    row = connection.execute(statement.values(state=new, **values).returning(*_JOB)).first()
    job = _job(row) if row else None
    if job and job.state.final and job.callback_url:
        deliveries.insert_delivery(connection, job)
    return job


def claim(
    connection: Connection, job_id: str, *, worker: str, now: datetime, lease_until: datetime
) -> Job | None:
    """Take a queued job; None when it is not there to be had: taken, cancelled or done."""
    return move(
        connection,
        job_id,
        JobState.QUEUED,
        JobState.RUNNING,
        _due(now),
        not_(_overdue(now)),
        attempt=jobs.c.attempt + 1,
        worker=worker,
        lease_expires_at=lease_until,
        run_after=None,
        started_at=func.coalesce(jobs.c.started_at, now),
    )


def requeue(
    connection: Connection, job: Job, *where: ColumnElement[bool], **values: Any
) -> Job | None:
    """Take the job from the attempt that runs it and put it back into the queue.

    None when it is not that attempt's any more, or is to be cancelled.
    """
    return move(
        connection,
        job.id,
        JobState.RUNNING,
        JobState.QUEUED,
        not_cancelled(),
        *where,
        fence=job.attempt,
        worker=None,
        lease_expires_at=None,
        **values,
    )


def _due(now: datetime) -> ColumnElement[bool]:
    return or_(jobs.c.run_after.is_(None), jobs.c.run_after <= now)


def _overdue(now: datetime) -> ColumnElement[bool]:
    """A job that some worker has begun is never too late."""
    return and_(jobs.c.deadline_at.is_not(None), jobs.c.deadline_at < now, jobs.c.attempt == 0)


def mark_sent(connection: Connection, job_id: str, moment: datetime | None) -> None:
    """When the job's message was sent; None: not yet, so that the sweeper does it."""
    statement = update(jobs).where(jobs.c.id == job_id, jobs.c.state == JobState.QUEUED)
    connection.execute(statement.values(enqueued_at=moment))


def not_cancelled() -> ColumnElement[bool]:
    """A condition for ``move``: nobody has asked for the running job to be cancelled."""
    return not_(jobs.c.cancel_requested)


def request_cancel(connection: Connection, job_id: str) -> Job | None:
    """The running job, which is to stop at its next checkpoint; None when it does not run."""
    statement = update(jobs).where(jobs.c.id == job_id, jobs.c.state == JobState.RUNNING)
    row = connection.execute(statement.values(cancel_requested=True).returning(*_JOB)).first()
    return _job(row) if row else None


def renew_lease(connection: Connection, job: Job, *, lease_until: datetime) -> bool:
    """False when the attempt has lost the job."""
    statement = update(jobs).where(
        jobs.c.id == job.id, jobs.c.state == JobState.RUNNING, jobs.c.attempt == job.attempt
    )
    return connection.execute(statement.values(lease_expires_at=lease_until)).rowcount == 1


def checkpoint(
    connection: Connection,
    job: Job,
    *,
    lease_until: datetime,
    progress: float,
    finished: Sequence[WindowRow] = (),
) -> Job | None:
    """Renew the lease, report, keep finished windows; None when the attempt has lost the job."""
    values = {"lease_expires_at": lease_until, "progress": progress}
    return _keep(connection, job, finished, values)


def keep_windows(connection: Connection, job: Job, finished: Sequence[WindowRow]) -> Job | None:
    """The same of a worker that helps with the attempt; None when that has lost the job."""
    return _keep(connection, job, finished, {})


def _keep(
    connection: Connection, job: Job, finished: Sequence[WindowRow], values: dict[str, Any]
) -> Job | None:
    """A finished window shows that the input does not kill its worker: losses count from there."""
    if finished:
        values = {**values, "losses": 0, "faults": 0, "last_loss": None}
    statement = update(jobs).where(
        jobs.c.id == job.id, jobs.c.state == JobState.RUNNING, jobs.c.attempt == job.attempt
    )
    row = connection.execute(statement.values(**values).returning(*_JOB)).first()
    if row and finished:
        windows.put(connection, job.id, job.attempt, finished)
    return _job(row) if row else None


def list_like(
    connection: Connection, job: Job, now: datetime, *, longest: float, most: int
) -> list[Job]:
    """Queued jobs of the bulk lane that nobody has tried yet, of the same kind, the eldest first.

    Their inputs are known to last at most so many seconds.
    """
    query = (
        select(*_JOB)
        .where(
            jobs.c.state == JobState.QUEUED,
            jobs.c.capability == job.capability,
            jobs.c.kind == job.kind,
            jobs.c.lane == Lane.BULK,
            jobs.c.attempt == 0,
            jobs.c.input_seconds <= longest,
            _due(now),
        )
        .order_by(jobs.c.created_at)
        .limit(most)
    )
    return [_job(row) for row in connection.execute(query)]


# -- admission -------------------------------------------------------------------------------------


def lock(connection: Connection, name: str) -> None:
    """Let one transaction at a time hold ``name``; on SQLite every writer does so anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})


def count_sync_jobs(connection: Connection, capability: Capability) -> int:
    """Jobs of waiting callers, queued or running."""
    query = select(func.count()).where(
        jobs.c.state.in_(_WAITING), jobs.c.capability == capability, jobs.c.sync
    )
    return connection.execute(query).scalar_one()


def count_interactive(connection: Connection, capabilities: Sequence[Capability]) -> int:
    """Jobs of waiting callers that no worker has taken yet."""
    query = select(func.count()).where(
        jobs.c.state == JobState.QUEUED,
        jobs.c.capability.in_(capabilities),
        jobs.c.lane == Lane.INTERACTIVE,
        jobs.c.sync,
    )
    return connection.execute(query).scalar_one()


def count_due(
    connection: Connection, capabilities: Sequence[Capability], now: datetime, *, most: int
) -> int:
    """Jobs that a worker could take now, counted up to so many."""
    query = select(jobs.c.id).where(
        jobs.c.state == JobState.QUEUED, jobs.c.capability.in_(capabilities), _due(now)
    )
    return len(connection.execute(query.limit(most)).all())


def busy_workers(connection: Connection) -> set[str]:
    query = select(jobs.c.worker).where(jobs.c.state == JobState.RUNNING)
    return set(connection.execute(query).scalars())


# -- recovery --------------------------------------------------------------------------------------


def lost_jobs(connection: Connection, now: datetime, *, limit: int = 100) -> list[Job]:
    """Running jobs whose lease nobody renewed."""
    query = select(*_JOB).where(jobs.c.state == JobState.RUNNING, jobs.c.lease_expires_at < now)
    return [_job(row) for row in connection.execute(query.limit(limit))]


def unsent_jobs(connection: Connection, now: datetime, *, limit: int = 1000) -> list[Job]:
    """Queued jobs that are due and whose message has yet to be sent."""
    query = (
        select(*_JOB)
        .where(jobs.c.state == JobState.QUEUED, jobs.c.enqueued_at.is_(None), _due(now))
        .order_by(jobs.c.created_at)
    )
    return [_job(row) for row in connection.execute(query.limit(limit))]


def count_sent(connection: Connection) -> dict[tuple[Capability, Lane], int]:
    """How many messages there must be, by queue."""
    query = (
        select(jobs.c.capability, jobs.c.lane, func.count())
        .where(jobs.c.state == JobState.QUEUED, jobs.c.enqueued_at.is_not(None))
        .group_by(jobs.c.capability, jobs.c.lane)
    )
    rows = connection.execute(query)
    return {(Capability(kind), Lane(lane)): count for kind, lane, count in rows}


def sent_jobs(
    connection: Connection, capability: Capability, lane: Lane, *, before: datetime, limit: int
) -> list[Job]:
    """Queued jobs whose message was sent before then, the oldest message first."""
    query = (
        select(*_JOB)
        .where(
            jobs.c.state == JobState.QUEUED,
            jobs.c.capability == capability,
            jobs.c.lane == lane,
            jobs.c.enqueued_at < before,
        )
        .order_by(jobs.c.enqueued_at, jobs.c.created_at)
    )
    return [_job(row) for row in connection.execute(query.limit(limit))]


def overdue_jobs(connection: Connection, now: datetime, *, limit: int = 1000) -> list[Job]:
    query = select(*_JOB).where(jobs.c.state == JobState.QUEUED, _overdue(now))
    return [_job(row) for row in connection.execute(query.limit(limit))]


def count_by_state(connection: Connection) -> dict[tuple[JobState, Capability], int]:
    query = select(jobs.c.state, jobs.c.capability, func.count()).group_by(
        jobs.c.state, jobs.c.capability
    )
    return {
        (JobState(state), Capability(kind)): count
        for state, kind, count in connection.execute(query)
    }


# -- workers ---------------------------------------------------------------------------------------


def put_worker(connection: Connection, worker: Worker) -> None:
    _upsert(connection, workers, {**asdict(worker)}, key="id")


def beat(connection: Connection, worker: Worker) -> bool:
    """False when the worker's row is gone: it was taken for dead."""
    statement = (
        update(workers)
        .where(workers.c.id == worker.id)
        .values(seen_at=worker.seen_at, memory=worker.memory, audio_counts=worker.audio_counts)
    )
    return connection.execute(statement).rowcount == 1


def delete_worker(connection: Connection, worker_id: str) -> None:
    connection.execute(delete(workers).where(workers.c.id == worker_id))


def bury_worker(connection: Connection, *, host: str, pid: int, now: datetime) -> None:
    """The process is known to be dead and about to be started again.

    Its leases, also of its shares in others' jobs, end now instead of at their expiry. Its row
    stays until it is stale, so that requests of the next seconds wait for the new process instead
    of being refused.
    """
    dead = select(workers.c.id).where(workers.c.host == host, workers.c.pid == pid)
    connection.execute(
        update(jobs)
        .where(jobs.c.state == JobState.RUNNING, jobs.c.worker.in_(dead))
        .values(lease_expires_at=now)
    )
    connection.execute(
        update(shares)
        .where(shares.c.worker.in_(dead), shares.c.lease_expires_at > now)
        .values(lease_expires_at=now)
    )
    connection.execute(
        update(workers)
        .where(workers.c.host == host, workers.c.pid == pid)
        .values(state="restarting", pid=0)
    )


def delete_stale_workers(connection: Connection, before: datetime) -> None:
    connection.execute(delete(workers).where(workers.c.seen_at < before))


def live_workers(connection: Connection, seen_after: datetime) -> list[Worker]:
    found = known_workers(connection, seen_after)
    return [worker for worker in found if worker.state == "ready"]


def known_workers(connection: Connection, seen_after: datetime) -> list[Worker]:
    """The live ones, and those that died a moment ago and are being started again."""
    query = select(workers).where(workers.c.seen_at >= seen_after).order_by(workers.c.started_at)
    return [_worker(row) for row in connection.execute(query)]


def _worker(row: Any) -> Worker:
    values = row._asdict()
    values["models"] = tuple(
        LoadedModel(
            **{
                **model,
                "capabilities": tuple(Capability(item) for item in model["capabilities"]),
                "voices": tuple(model["voices"]),
            }
        )
        for model in values["models"]
    )
    return Worker(**values)


# -- leases ----------------------------------------------------------------------------------------


def take_lease(
    connection: Connection, name: str, *, owner: str, now: datetime, until: datetime
) -> bool:
    """True when ``owner`` holds the named lease until then: it was free, expired or its own."""
    mine = or_(leases.c.owner == owner, leases.c.expires_at < now)
    statement = update(leases).where(leases.c.name == name, mine)
    if connection.execute(statement.values(owner=owner, expires_at=until)).rowcount:
        return True
    values = {"name": name, "owner": owner, "expires_at": until}
    return insert_if_absent(connection, leases, values, keys=("name",))


def release_lease(connection: Connection, name: str, *, owner: str) -> None:
    connection.execute(delete(leases).where(leases.c.name == name, leases.c.owner == owner))


def _dialect_insert(connection: Connection, table: Any) -> Any:
    """Each database's own INSERT; only the one in use is loaded, which it is by then."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def insert_if_absent(
    connection: Connection, table: Any, values: dict[str, Any], *, keys: Sequence[str]
) -> bool:
    """True when there was no row with these keys."""
    statement = _dialect_insert(connection, table).values(**values)
    # A row count of an insert is not told by every driver.
    statement = statement.on_conflict_do_nothing(index_elements=keys).returning(table.c[keys[0]])
    return connection.execute(statement).first() is not None


def _upsert(connection: Connection, table: Any, values: dict[str, Any], *, key: str) -> None:
    statement = _dialect_insert(connection, table).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=values))
