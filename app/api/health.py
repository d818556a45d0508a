"""Is the process alive, and is the service ready to work."""

from __future__ import annotations

from typing import Any

import redis
from fastapi import APIRouter
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse

from app.api.context import ServicesDep
from app.jobs import workers
from app.jobs.services import Services

router = APIRouter(tags=["health"])


@router.get("/health")
def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/ready")
def ready(services: ServicesDep) -> JSONResponse:
    """200 when database and broker answer and a live worker has each configured model loaded."""
    checks = {"database": _database(services), "broker": _broker(services)}
    if checks["database"] == "ok":
        missing = workers.missing(services)
        checks["workers"] = f"no live worker for {', '.join(missing)}" if missing else "ok"
    fine = all(state == "ok" for state in checks.values())
    body: dict[str, Any] = {"status": "ready" if fine else "not ready", "checks": checks}
    return JSONResponse(body, status_code=200 if fine else 503)


def _database(services: Services) -> str:
    try:
        with services.database.reading() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return "unreachable"
    return "ok"


def _broker(services: Services) -> str:
    try:
        services.announcer.ping()
    except redis.RedisError:
        return "unreachable"
    return "ok"
