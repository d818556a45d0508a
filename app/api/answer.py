"""From a submission to an answer: wait for the job and render it, or hand out its address.

The one function that all routes share; a route only parses and renders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.api import prefer, views
from app.api.context import doorbell, services
from app.api.errors import job_error_response
from app.db.records import Job
from app.errors import NotFound, Unavailable, WaitTimeout
from app.jobs import idempotency
from app.jobs.lifecycle import cancel
from app.jobs.services import Services
from app.jobs.submit import Submission, submit
from app.jobs.wait import wait
from app.states import JobState
from app.storage import StorageError

Render = Callable[[Services, Job], Response]
RETRY_SECONDS = "1"  # Retry-After of an accepted job


def job_url(job: Job) -> str:
    return f"/v1/jobs/{job.id}"


async def answer(request: Request, submission: Submission, render: Render) -> Response:
    """200 with the result, 202 with the job, 504 with its address, or the job's own error."""
    context = services(request)
    preference = prefer.parse(request.headers.getlist("prefer"))
    limit = context.settings.audio_request_timeout_seconds
    submission = replace(
        submission,
        sync=not preference.respond_async,
        request_id=request.state.request_id,
        idempotency_key=request.headers.get(idempotency.HEADER),
        owner=getattr(request.state, "owner", ""),
    )
    job = await anyio.to_thread.run_sync(submit, context, submission)
    if preference.respond_async and not preference.wait_seconds:
        return await anyio.to_thread.run_sync(accepted, context, job)
    seconds = limit if preference.wait_seconds is None else min(preference.wait_seconds, limit)
    waited = await _wait_while_connected(request, job, seconds, kept=submission.kept)
    if waited is None:
        raise NotFound("The job is gone.")
    if waited.state.final:
        return await anyio.to_thread.run_sync(finished, context, waited, render)
    if preference.respond_async:
        return await anyio.to_thread.run_sync(accepted, context, waited)
    raise WaitTimeout(headers={"Location": job_url(job)})


def finished(context: Services, job: Job, render: Render) -> Response:
    """The result of a job in its final state, or its error with the error's status."""
    if job.state is not JobState.SUCCEEDED:
        return job_error_response(job)
    try:
        return render(context, job)
    except StorageError as error:
        raise Unavailable("The storage failed. Please try again later.") from error


def accepted(context: Services, job: Job) -> Response:
    headers = {
        "Location": job_url(job),
        "Retry-After": RETRY_SECONDS,
        "Preference-Applied": "respond-async",
    }
    return JSONResponse(views.job(context, job), status_code=202, headers=headers)


async def _wait_while_connected(
    request: Request, job: Job, seconds: float, *, kept: bool
) -> Job | None:
    """Wait for the job; when the caller hangs up on a job that only it wanted, cancel that.

    Raises ClientDisconnect when nobody is there to read an answer.
    """
    context = services(request)
    waiting = asyncio.create_task(wait(context, doorbell(request), job.id, seconds))
    leaving = asyncio.create_task(_hang_up(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if not kept:
            await anyio.to_thread.run_sync(cancel, context, job.id)
        raise ClientDisconnect
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
