"""Batches: many requests in one file, fed into the queue so many at a time until all are settled.

One process feeds at a time, by a lease; should two do it for a moment, each line still makes one
job, under its own idempotency key, and every change of state is a compare-and-set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from app.clock import new_id, now
from app.db import batches as rows
from app.db import queries
from app.db.records import Batch, BatchLine
from app.errors import Busy, Conflict, NotFound, ServiceError, Unavailable
from app.jobs import batch_lines, batch_results, files, lifecycle, sources, workers
from app.jobs.batch_lines import LineRequest, Read, TooManyLines
from app.jobs.errors import from_service_error, job_error
from app.jobs.services import Services
from app.jobs.submit import Submission, submit
from app.states import BatchState, JobState, Kind, Lane, LineState
from app.storage import StorageError

LEASE = "batches"
LEASE_SECONDS = 10.0  # soon another goes on; a slow source may outlast it, which does no harm
FETCHERS = 8  # sources fetched and stored at a time
INSERTED_AT_ONCE = 1000
ENDPOINTS = {
    "/v1/audio/transcriptions": Kind.TRANSCRIPTION,
    "/v1/audio/translations": Kind.TRANSLATION,
    "/v1/audio/speech": Kind.SPEECH,
}
EXPIRED = job_error(
    "The batch expired before this request was done.",
    status=504,
    type_="server_timeout",
    code=batch_results.EXPIRED,
)
CANCELLED = job_error(
    "The batch was cancelled before this request was done.",
    status=409,
    type_="invalid_request_error",
    code="batch_cancelled",
)
LOST = job_error("The job is gone.", status=410, type_="invalid_request_error", code="gone")

log = structlog.get_logger()


class Stopped(Exception):
    """The process ends; what was begun is gone on with by the next one."""


def create(
    services: Services,
    *,
    owner: str,
    endpoint: str,
    input_file_id: str,
    window: str,
    seconds: float,
    metadata: dict[str, str] | None,
) -> Batch:
    """Raises NotFound for a file that is not there, or not the caller's."""
    files.get(services, input_file_id, owner)
    moment = now()
    batch = Batch(
        id=new_id("batch"),
        owner=owner,
        endpoint=endpoint,
        input_file_id=input_file_id,
        completion_window=window,
        metadata=metadata,
        created_at=moment,
        expires_at=moment + timedelta(seconds=seconds),
    )
    with services.database.writing() as connection:
        rows.insert_batch(connection, batch)
    return batch


def get(services: Services, batch_id: str, owner: str) -> Batch:
    """Raises NotFound, also for another caller's batch."""
    with services.database.reading() as connection:
        found = rows.get_batch(connection, batch_id)
    if found is None or (owner and found.owner != owner):
        raise NotFound("No such batch.", param="batch_id")
    return found


def cancel(services: Services, batch_id: str, owner: str) -> Batch:
    """What is done stays done. Raises Conflict for a batch that has ended."""
    while True:
        batch = get(services, batch_id, owner)
        if batch.state is BatchState.CANCELLING:
            return batch
        if batch.state.final or batch.state is BatchState.FINALIZING:
            raise Conflict(f"The batch is {batch.state}.")
        with services.database.writing() as connection:
            moved = rows.move(connection, batch, BatchState.CANCELLING, now=now())
        if moved:
            return moved  # else it moved in between: look again


def feed(services: Services, owner: str, read: Read, stop: threading.Event) -> None:
    """Take every open batch on for as long as that leads anywhere, if no other process does it."""
    while not stop.is_set() and _hold(services, owner):
        with services.database.reading() as connection:
            found = rows.open_batches(connection)
        went_on = [_advance(services, batch, read, stop) for batch in found]
        if not any(went_on):
            return


def _hold(services: Services, owner: str) -> bool:
    moment = now()
    until = moment + timedelta(seconds=LEASE_SECONDS)
    with services.database.writing() as connection:
        return queries.take_lease(connection, LEASE, owner=owner, now=moment, until=until)


def _advance(services: Services, batch: Batch, read: Read, stop: threading.Event) -> bool:
    """Whether there is more to be done at once."""
    try:
        return _STEPS[batch.state](services, batch, read, stop)
    except Stopped:
        return False
    except (ServiceError, StorageError, OSError, DBAPIError) as error:
        log.warning("batch_not_advanced", batch_id=batch.id, error=str(error))
        return False  # the next round tries again


# -- validating ------------------------------------------------------------------------------------


def _validate(services: Services, batch: Batch, read: Read, stop: threading.Event) -> bool:
    try:
        total = _read_lines(services, batch, read, stop)
    except TooManyLines:
        most = services.settings.batch_max_lines
        return _fail(services, batch, "too_many_lines", f"A batch has at most {most} lines.")
    except FileNotFoundError:
        return _fail(services, batch, "file_not_found", "The input file has been deleted.")
    if not total:
        return _fail(services, batch, "empty_file", "The input file has no lines.")
    with services.database.writing() as connection:
        rows.set_counts(connection, batch.id, rows.count_lines(connection, batch.id))
        return bool(rows.move(connection, batch, BatchState.IN_PROGRESS, now=now(), total=total))


def _read_lines(services: Services, batch: Batch, read: Read, stop: threading.Event) -> int:
    """From the start, whatever an earlier attempt has left."""
    with services.database.writing() as connection:
        rows.delete_lines(connection, batch.id)
    file = files.get(services, batch.input_file_id, "")
    total = 0
    with services.store.open(file.key) as opened:
        lines = batch_lines.parse(opened, batch.endpoint, services.settings, read)
        while chunk := list(islice(lines, INSERTED_AT_ONCE)):
            _check(stop)
            with services.database.writing() as connection:
                rows.insert_lines(connection, batch.id, chunk)
            total += len(chunk)
    return total


def _fail(services: Services, batch: Batch, code: str, message: str) -> bool:
    problem = {"code": code, "message": message, "line": None, "param": "input_file_id"}
    with services.database.writing() as connection:
        rows.delete_lines(connection, batch.id)
        rows.move(connection, batch, BatchState.FAILED, now=now(), errors=[problem])
    return False


# -- in progress -----------------------------------------------------------------------------------


def _work(services: Services, batch: Batch, read: Read, stop: threading.Event) -> bool:
    settled = _settle(services, batch)
    if now() > batch.expires_at:
        _abandon(services, batch, EXPIRED)
    with services.database.reading() as connection:
        counts = rows.count_lines(connection, batch.id)
    if not counts.get(LineState.WAITING) and not counts.get(LineState.SUBMITTED):
        with services.database.writing() as connection:
            return bool(rows.move(connection, batch, BatchState.FINALIZING, now=now()))
    room = services.settings.batch_in_flight - counts.get(LineState.SUBMITTED, 0)
    return bool(settled + _top_up(services, batch, room, read, stop))


def _settle(services: Services, batch: Batch) -> int:
    """Note which jobs have come to their end; how many."""
    with services.database.writing() as connection:
        found = rows.settled_lines(connection, batch.id)
        for number, state, error in found:
            if state is JobState.SUCCEEDED:
                values: dict[str, Any] = {"state": LineState.SUCCEEDED}
            else:
                values = {"state": LineState.FAILED, "error": error or LOST}
            rows.set_line(connection, batch.id, number, LineState.SUBMITTED, **values)
        if found:
            rows.set_counts(connection, batch.id, rows.count_lines(connection, batch.id))
    return len(found)


def _top_up(services: Services, batch: Batch, room: int, read: Read, stop: threading.Event) -> int:
    """Submit as many waiting lines as there is room for; how many are through."""
    if room <= 0:
        return 0
    with services.database.reading() as connection:
        waiting = rows.lines_in(connection, batch.id, LineState.WAITING, limit=room)
    if not waiting:
        return 0
    try:
        workers.require(services, ENDPOINTS[batch.endpoint])
    except Busy:
        return 0  # a worker is on its way
    except ServiceError as error:
        return _give_up(services, batch, error)
    one = partial(_submit_line, services, batch, read, stop)
    with ThreadPoolExecutor(FETCHERS, "lines") as pool:
        return sum(pool.map(one, waiting))


def _give_up(services: Services, batch: Batch, error: ServiceError) -> int:
    with services.database.writing() as connection:
        rows.fail_waiting(connection, batch.id, _problem(error))
        rows.set_counts(connection, batch.id, rows.count_lines(connection, batch.id))
    return 1


def _submit_line(
    services: Services, batch: Batch, read: Read, stop: threading.Event, line: BatchLine
) -> bool:
    """False when the line still waits, for a store or a database that is away."""
    try:
        _check(stop)
        request = read(services.settings, batch.endpoint, line.body or {})
        job_id = _submit(services, batch, line, request, lambda: _check(stop))
        values: dict[str, Any] = {"state": LineState.SUBMITTED, "job_id": job_id}
    except (Stopped, Unavailable, StorageError, OSError, DBAPIError) as error:
        log.warning("line_waits", batch_id=batch.id, line=line.number, error=str(error))
        return False
    except ServiceError as error:
        values = {"state": LineState.FAILED, "error": _problem(error)}
    with services.database.writing() as connection:
        rows.set_line(connection, batch.id, line.number, LineState.WAITING, **values)
    return True


def _submit(
    services: Services,
    batch: Batch,
    line: BatchLine,
    request: LineRequest,
    check: Callable[[], None],
) -> str:
    source = request.source
    opening = (
        sources.opened(services, source, owner=batch.owner, check=check)
        if source
        else nullcontext()
    )
    with opening as upload:
        submission = Submission(
            kind=request.kind,
            options=request.options,
            upload=upload,
            lane=Lane.BULK,
            sync=False,
            request_id=f"{batch.id}_{line.number}"[:64],
            idempotency_key=f"{batch.id}:{line.number}",
            owner=batch.owner,
            batch_id=batch.id,
            deadline_at=batch.expires_at,
        )
        return submit(services, submission).id


def _problem(error: ServiceError) -> dict[str, Any]:
    return from_service_error(error) | {"code": error.code or "invalid_request"}


# -- the end ---------------------------------------------------------------------------------------


def _cancel(services: Services, batch: Batch, _read: Read, _stop: threading.Event) -> bool:
    _settle(services, batch)
    _abandon(services, batch, CANCELLED)
    return _finish(services, batch, BatchState.CANCELLED)


def _finalize(services: Services, batch: Batch, _read: Read, _stop: threading.Event) -> bool:
    return _finish(services, batch, BatchState.COMPLETED)


def _abandon(services: Services, batch: Batch, error: dict[str, Any]) -> None:
    """Nothing more is done for the lines that are not settled."""
    with services.database.writing() as connection:
        rows.fail_waiting(connection, batch.id, error)
        left = rows.lines_in(
            connection, batch.id, LineState.SUBMITTED, limit=services.settings.batch_max_lines
        )
    for line in left:
        lifecycle.cancel(services, line.job_id or "")
        with services.database.writing() as connection:
            rows.set_line(
                connection,
                batch.id,
                line.number,
                LineState.SUBMITTED,
                state=LineState.FAILED,
                error=error,
                job_id=None,
            )


def _finish(services: Services, batch: Batch, state: BatchState) -> bool:
    results = batch_results.write(services, batch)
    if results.expired and state is BatchState.COMPLETED:
        state = BatchState.EXPIRED
    with services.database.writing() as connection:
        rows.set_counts(connection, batch.id, rows.count_lines(connection, batch.id))
        rows.move(
            connection,
            batch,
            state,
            now=now(),
            output_file_id=results.output_file_id,
            error_file_id=results.error_file_id,
        )
    log.info("batch_finished", batch_id=batch.id, state=state)
    return False


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


Step = Callable[[Services, Batch, Read, threading.Event], bool]
_STEPS: dict[BatchState, Step] = {
    BatchState.VALIDATING: _validate,
    BatchState.IN_PROGRESS: _work,
    BatchState.CANCELLING: _cancel,
    BatchState.FINALIZING: _finalize,
}
