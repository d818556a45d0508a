"""Every error as OpenAI's envelope: the service's own, the framework's, and a finished job's."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.db.records import Job
from app.errors import BadRequest, ServiceError, Unprocessable

log = structlog.get_logger()


def error_response(
    body: dict[str, Any], status: int, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": body}, status_code=status, headers=headers)


def job_error_response(job: Job) -> JSONResponse:
    """The error that ended the job, with the status that a waiting caller gets."""
    if job.error is None:  # every move to a final state but "succeeded" sets it
        return error_response(ServiceError().body(), ServiceError.status)
    body = {key: value for key, value in job.error.items() if key != "status"}
    return error_response(body, job.error["status"])


def install(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def _service_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ServiceError):
        raise error
    return error_response(error.body(), error.status, error.headers)


async def _http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    body = BadRequest(f"{HTTPStatus(error.status_code).phrase}.").body()
    headers = dict(error.headers) if error.headers else None
    return error_response(body, error.status_code, headers)


async def _validation_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return error_response(unprocessable(error.errors()[0]).body(), Unprocessable.status)


def unprocessable(problem: Any) -> Unprocessable:
    """The first problem that Pydantic found, as an error that names the field."""
    where = [str(part) for part in problem["loc"] if part not in ("body", "query", "path")]
    name = ".".join(where)
    message = f"'{name}': {problem['msg']}" if name else str(problem["msg"])
    return Unprocessable(message, param=name or None)


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    return error_response(ServiceError().body(), ServiceError.status)
