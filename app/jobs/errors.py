"""The errors that a job's row can end with: OpenAI's error object plus the HTTP status."""

from __future__ import annotations

from typing import Any

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
WORKER_LOST = job_error(
    "audio model inference failed: the worker died on every attempt",
    status=500,
    type_="server_error",
    code="worker_lost",
)
