"""Is the process alive, and is the service ready to work."""

from __future__ import annotations

from collections.abc import Callable

import redis
import structlog
from fastapi import APIRouter
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse

from app.api.context import ServicesDep
from app.db.schema import SchemaError, require_current
from app.jobs import workers
from app.jobs.services import Services
from app.storage import StorageError

log = structlog.get_logger()
router = APIRouter(tags=["health"])


class NotReady(RuntimeError):
    """What is missing, in words that may be shown to anyone."""


@router.get("/health")
def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/ready")
def ready(services: ServicesDep) -> JSONResponse:
    """200 when all that jobs stand on answers and a live worker has each configured model."""
    checks = {name: _outcome(name, check, services) for name, check in CHECKS.items()}
    fine = all(state == "ok" for state in checks.values())
    body = {"status": "ready" if fine else "not ready", "checks": checks}
    return JSONResponse(body, status_code=200 if fine else 503)


def _outcome(name: str, check: Callable[[Services], None], services: Services) -> str:
    """The reason goes to the log, since an engine's own words may name hosts and paths."""
    try:
        check(services)
    except NotReady as reason:
        return str(reason)
    except (SQLAlchemyError, redis.RedisError, StorageError, SchemaError, OSError) as error:
        log.warning("not_ready", check=name, error=str(error))
        return "failed"
    return "ok"


def _database(services: Services) -> None:
    with services.database.reading() as connection:
        connection.execute(text("SELECT 1"))


def _workers(services: Services) -> None:
    if missing := workers.missing(services):
        raise NotReady(f"no live worker for {', '.join(missing)}")


CHECKS: dict[str, Callable[[Services], None]] = {
    "database": _database,
    "schema": lambda services: require_current(services.database),
    "broker": lambda services: services.announcer.ping(),
    "storage": lambda services: services.store.check(),
    "workers": _workers,
}
