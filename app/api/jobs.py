"""Jobs as resources: look, list, fetch the result, cancel."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import anyio.to_thread
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api import blobs, openapi, prefer, render, views
from app.api.context import DoorbellDep, Owner, ServicesDep
from app.api.waiting import finished, while_connected
from app.db import queries
from app.db.records import Job
from app.errors import BadRequest, Conflict, Gone, NotFound
from app.jobs.formats import Format
from app.jobs.lifecycle import cancel
from app.jobs.services import Services
from app.jobs.wait import read, wait
from app.states import JobState, Kind

JobId = Annotated[str, Path(max_length=40, pattern="^job_[0-9a-f]{32}$")]
POLL_SECONDS = 2.0  # s between two looks at a job that somebody follows, when no publish comes
BatchId = Annotated[str | None, Query(max_length=40)]

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
def list_jobs(
    services: ServicesDep,
    owner: Owner,
    *,
    status: JobState | None = None,
    kind: Kind | None = None,
    batch: BatchId = None,
    after: Annotated[str | None, Query(max_length=40)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """Newest first; ``after`` is the id of the last job of the page before."""
    cursor = _get(services, owner, after) if after else None
    with services.database.reading() as connection:
        found = queries.list_jobs(
            connection,
            state=status,
            kind=kind,
            batch_id=batch,
            owner=owner,
            after=cursor,
            limit=limit + 1,
        )
    page = found[:limit]
    return {
        "object": "list",
        "data": [views.job(services, job) for job in page],
        "has_more": len(found) > limit,
        "last_id": page[-1].id if page else None,
    }


@router.get("/{job_id}", openapi_extra={"parameters": [openapi.WAIT]})
async def get_job(
    request: Request, services: ServicesDep, bell: DoorbellDep, owner: Owner, job_id: JobId
) -> dict[str, Any]:
    """Now, or with ``Prefer: wait=N`` once it is final, at the latest N seconds from now."""
    job = await anyio.to_thread.run_sync(_get, services, owner, job_id)
    seconds = prefer.parse(request.headers.getlist("prefer")).wait_seconds
    if seconds and not job.state.final:
        limit = services.settings.audio_request_timeout_seconds
        waiting = wait(services, bell, job.id, min(seconds, limit), poll=POLL_SECONDS)
        waited = await while_connected(request, job, waiting, kept=True)
        job = waited or _none()
    return await anyio.to_thread.run_sync(_shown, services, job)


@router.get("/{job_id}/result")
def get_result(
    services: ServicesDep,
    request: Request,
    owner: Owner,
    job_id: JobId,
    format_: Annotated[Format | None, Query(alias="format")] = None,
) -> Response:
    """What the synchronous call would have answered, or the transcript in another format.

    409 while the job is not finished, the job's own error if it failed, 410 once it is deleted.
    """
    job = _get(services, owner, job_id)
    if not job.state.final:
        raise Conflict(f"The job is {job.state}.", headers={"Retry-After": "1"})
    if job.state is JobState.SUCCEEDED and job.output_key is None:
        raise Gone
    if job.kind is Kind.SPEECH:
        if format_:
            raise BadRequest("Speech has no 'format': it is a WAV file.", param="format")
        return finished(services, job, lambda *_: _speech(services, request, job))
    if format_:
        return finished(services, job, lambda *_: render.transcript_as(services, job, format_))
    return finished(
        services, job, render.event if job.kind is Kind.TRANSCRIPTION else render.translation
    )


@router.get("/{job_id}/timing")
def get_timing(services: ServicesDep, owner: Owner, job_id: JobId) -> Response:
    """When each stretch of the original text is said in a finished job's speech."""
    job = _get(services, owner, job_id)
    if job.kind is not Kind.SPEECH:
        raise BadRequest("Only speech has a timing; a transcript has segments.")
    if not job.state.final:
        raise Conflict(f"The job is {job.state}.", headers={"Retry-After": "1"})
    return finished(services, job, render.timing)


@router.delete("/{job_id}")
def delete_job(services: ServicesDep, owner: Owner, job_id: JobId) -> JSONResponse:
    """Cancel: a queued job at once, a running one within a window of audio. Idempotent."""
    _get(services, owner, job_id)
    return JSONResponse(views.job(services, cancel(services, job_id) or _none()))


def _speech(services: Services, request: Request, job: Job) -> Response:
    return blobs.respond(
        services,
        job.output_key or "",
        size=job.output_bytes or 0,
        sha256=job.output_sha256 or "",
        request=request,
        media_type="audio/wav",
        disposition="attachment; filename=speech.wav",
    )


def _get(services: Services, owner: str, job_id: str) -> Job:
    """The caller's job: those of other keys are not there."""
    job = read(services, job_id)
    if job is None or (owner and job.owner != owner):
        _none()
    return job


def _none() -> NoReturn:
    raise NotFound("No such job.")


def _shown(services: Services, job: Job) -> dict[str, Any]:
    return views.job(services, job) | views.webhook(services, job)
