"""A job's row as JSON: what its address answers, and what a callback is told."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db.records import Job


def job(shown: Job) -> dict[str, Any]:
    return {
        "id": shown.id,
        "object": "job",
        "kind": shown.kind,
        "status": shown.state,
        "created_at": time(shown.created_at),
        "started_at": time(shown.started_at),
        "finished_at": time(shown.finished_at),
        "expires_at": time(shown.expires_at),
        "progress": round(shown.progress, 4),
        "attempts": shown.attempt,
        "last_loss": shown.last_loss,
        "retry_at": time(shown.run_after),
        "batch_id": shown.batch_id,
        "model": shown.model,
        "metrics": shown.metrics,
        "error": _error(shown),
        "links": {"self": f"/v1/jobs/{shown.id}", "result": f"/v1/jobs/{shown.id}/result"},
    }


def _error(shown: Job) -> dict[str, Any] | None:
    if shown.error is None:
        return None
    return {key: value for key, value in shown.error.items() if key != "status"}


def time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
