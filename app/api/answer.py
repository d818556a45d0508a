"""From a submission to an answer: wait for the job and render it, or hand out its address.

The one function that all routes share; a route only parses and renders.
"""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api import prefer, views
from app.api.context import doorbell, services
from app.api.stream import stream
from app.api.waiting import Render, job_url, settled, while_connected
from app.db.records import Job
from app.jobs import idempotency
from app.jobs.services import Services
from app.jobs.submit import Submission, submit
from app.jobs.wait import wait

RETRY_SECONDS = "1"  # Retry-After of an accepted job


async def answer(
    request: Request, submission: Submission, render: Render, *, streamed: bool = False
) -> Response:
    """200 with the result, 202 with the job, 504 with its address, or the job's own error.

    ``streamed``: the result as events, the first as soon as there is text.
    """
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
    if streamed and not preference.respond_async:
        return await stream(request, job, seconds, kept=submission.kept)
    work = wait(context, doorbell(request), job.id, seconds)
    waited = await while_connected(request, job, work, kept=submission.kept)
    if waited and preference.respond_async and not waited.state.final:
        return await anyio.to_thread.run_sync(accepted, context, waited)
    return await settled(context, waited, job, render)


def accepted(context: Services, job: Job) -> Response:
    headers = {
        "Location": job_url(job),
        "Retry-After": RETRY_SECONDS,
        "Preference-Applied": "respond-async",
    }
    return JSONResponse(views.job(context, job), status_code=202, headers=headers)
