"""A caller on the connection, a job that it waits for: hanging up, and what the end answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.api.context import services
from app.api.errors import job_error_response
from app.db.records import Job
from app.errors import NotFound, WaitTimeout
from app.jobs.lifecycle import cancel
from app.jobs.services import Services
from app.states import JobState

Render = Callable[[Services, Job], Response]
Result = TypeVar("Result")


def job_url(job: Job) -> str:
    return f"/v1/jobs/{job.id}"


async def settled(context: Services, waited: Job | None, job: Job, render: Render) -> Response:
    """The answer to the job as it was when waiting for it ended."""
    if waited is None:
        raise NotFound("The job is gone.")
    if waited.state.final:
        return await anyio.to_thread.run_sync(finished, context, waited, render)
    raise WaitTimeout(headers={"Location": job_url(job)})


def finished(context: Services, job: Job, render: Render) -> Response:
    """The result of a job in its final state, or its error with the error's status."""
    return render(context, job) if job.state is JobState.SUCCEEDED else job_error_response(job)


async def while_connected(
    request: Request, job: Job, work: Coroutine[Any, Any, Result], *, kept: bool
) -> Result:
    """Wait for the work; when the caller hangs up on a job that only it wanted, cancel that.

    Raises ClientDisconnect when nobody is there to read an answer.
    """
    waiting = asyncio.create_task(work)
    leaving = asyncio.create_task(_hang_up(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if not kept:
            await anyio.to_thread.run_sync(cancel, services(request), job.id)
        raise ClientDisconnect
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
