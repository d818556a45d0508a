"""Jobs as resources: look, list, fetch the result, cancel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import JSONResponse, Response

from app.api import render, views
from app.api.answer import finished
from app.api.context import ServicesDep
from app.db import queries
from app.db.records import Job
from app.errors import Conflict, NotFound
from app.jobs.cancel import cancel
from app.jobs.services import Services
from app.jobs.wait import read
from app.states import JobState, Kind

RENDER = {
    Kind.TRANSCRIPTION: render.event,
    Kind.TRANSLATION: render.translation,
    Kind.SPEECH: render.wav,
}
JobId = Annotated[str, Path(max_length=40, pattern="^job_[0-9a-f]{32}$")]

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
def list_jobs(
    services: ServicesDep,
    status: JobState | None = None,
    kind: Kind | None = None,
    after: Annotated[str | None, Query(max_length=40)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """Newest first; ``after`` is the id of the last job of the page before."""
    cursor = _get(services, after) if after else None
    with services.database.reading() as connection:
        found = queries.list_jobs(
            connection, state=status, kind=kind, after=cursor, limit=limit + 1
        )
    page = found[:limit]
    return {
        "object": "list",
        "data": [views.job(services, job) for job in page],
        "has_more": len(found) > limit,
        "last_id": page[-1].id if page else None,
    }


@router.get("/{job_id}")
def get_job(services: ServicesDep, job_id: JobId) -> dict[str, Any]:
    return views.job(services, _get(services, job_id))


@router.get("/{job_id}/result")
def get_result(services: ServicesDep, job_id: JobId) -> Response:
    """What the synchronous call would have answered; 409 while the job is not finished."""
    job = _get(services, job_id)
    if not job.state.final:
        raise Conflict(f"The job is {job.state}.", headers={"Retry-After": "1"})
    return finished(services, job, RENDER[job.kind])


@router.delete("/{job_id}")
def delete_job(services: ServicesDep, job_id: JobId) -> JSONResponse:
    """Cancel: a queued job at once, a running one within a window of audio. Idempotent."""
    job = cancel(services, job_id)
    if job is None:
        raise NotFound("No such job.")
    return JSONResponse(views.job(services, job))


def _get(services: Services, job_id: str) -> Job:
    job = read(services, job_id)
    if job is None:
        raise NotFound("No such job.")
    return job
