"""The errors that a job's row can end with: OpenAI's error object plus the HTTP status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.errors import ServiceError

JobError = dict[str, Any]


def job_error(
    message: str, *, status: int, type_: str, code: str | None, param: str | None = None
) -> JobError:
    return {"message": message, "type": type_, "param": param, "code": code, "status": status}


def from_service_error(error: ServiceError) -> JobError:
    return error.body() | {"status": error.status}


CANCELLED = job_error(
    "The job was cancelled.", status=409, type_="invalid_request_error", code="cancelled"
)
EXPIRED = job_error(
    "No worker took the job before its deadline.",
    status=504,
    type_="server_timeout",
    code="expired",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A way in which an attempt ends without saying anything about its job."""

    code: str
    message: str
    """Of the job's error when it was one loss too many."""
    backoff_seconds: float = 0.0
    """Before the second attempt; twice as long before each later one."""
    counter: Literal["losses", "faults"] = "losses"

    @property
    def error(self) -> JobError:
        return job_error(self.message, status=500, type_="server_error", code=self.code)


WORKER_LOST = Loss(
    code="worker_lost",
    message="audio model inference failed: the worker died on every attempt",
)
STUCK = Loss(
    code="stuck",
    message="audio model inference failed: the model did not come back on any attempt",
)
STORAGE_FAILED = Loss(
    code="storage_failed",
    message="the storage failed on every attempt",
    backoff_seconds=1.0,
    counter="faults",
)
DATABASE_FAILED = Loss(
    code="database_failed",
    message="the database failed on every attempt",
    backoff_seconds=1.0,
    counter="faults",
)
