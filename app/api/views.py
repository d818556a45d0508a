"""Jobs as JSON, the same wherever one is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db import queries
from app.db.records import Job
from app.jobs.services import Services
from app.states import JobState


def job(services: Services, shown: Job) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": shown.id,
        "object": "job",
        "kind": shown.kind,
        "status": shown.state,
        "created_at": _time(shown.created_at),
        "started_at": _time(shown.started_at),
        "finished_at": _time(shown.finished_at),
        "expires_at": _time(shown.expires_at),
        "progress": round(shown.progress, 4),
        "attempts": shown.attempt,
        "model": shown.model,
        "metrics": shown.metrics,
        "error": _error(shown),
        "links": {"self": f"/v1/jobs/{shown.id}", "result": f"/v1/jobs/{shown.id}/result"},
    }
    if shown.state is JobState.QUEUED:
        body |= _queue(services, shown)
    return body


def _queue(services: Services, shown: Job) -> dict[str, Any]:
    """Where the job stands; no estimate before anything of its kind has been finished."""
    with services.database.reading() as connection:
        ahead = queries.count_ahead(connection, shown)
        typical = queries.recent_run_seconds(connection, shown)
    wait = None if typical is None else round(typical * (ahead + 1), 1)
    return {"queue_position": ahead + 1, "estimated_wait_seconds": wait}


def _error(shown: Job) -> dict[str, Any] | None:
    if shown.error is None:
        return None
    return {key: value for key, value in shown.error.items() if key != "status"}


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
