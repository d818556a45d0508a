"""Every error as OpenAI's envelope: the service's own, the framework's, and a finished job's."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.db.records import Job
from app.errors import BadRequest, ServiceError, Unavailable, Unprocessable
from app.storage import StorageError

MESSAGE_CHARACTERS = 1000  # of a message, which may quote what the caller sent
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON can escape them, UTF-8 cannot hold them

log = structlog.get_logger()


def error_response(
    body: dict[str, Any], status: int, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": presentable(body)}, status_code=status, headers=headers)


def presentable(body: dict[str, Any]) -> dict[str, Any]:
    message = _SURROGATES.sub("\ufffd", body["message"])[:MESSAGE_CHARACTERS]
    return {**body, "message": message}


def job_error_response(job: Job) -> JSONResponse:
    """The error that ended the job, with the status that a waiting caller gets."""
    if job.error is None:  # every move to a final state but "succeeded" sets it
        return error_response(ServiceError().body(), ServiceError.status)
    return error_response(job_error_body(job), job.error["status"])


def job_error_body(job: Job) -> dict[str, Any]:
    """OpenAI's error object of a job that failed."""
    error = job.error or ServiceError().body()
    return {key: value for key, value in error.items() if key != "status"}


def install(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(DBAPIError, _database_error)
    app.add_exception_handler(StorageError, _storage_error)
    app.add_middleware(Unexpected)


async def _service_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ServiceError):
        raise error
    return error_response(error.body(), error.status, error.headers)


async def _database_error(request: Request, error: Exception) -> Response:
    log.error("database_failed", path=request.url.path, error=str(error))
    return _unavailable("The database failed. Please try again later.")


async def _storage_error(request: Request, error: Exception) -> Response:
    log.error("storage_failed", path=request.url.path, error=str(error))
    return _unavailable("The storage failed. Please try again later.")


def _unavailable(message: str) -> Response:
    failing = Unavailable(message)
    return error_response(failing.body(), failing.status, failing.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed(request))
    return error_response(BadRequest(f"{status.phrase}.").body(), status, headers)


def _allowed(request: Request) -> list[str]:
    """Every method of the path: the framework names those of the first matching route only."""
    routes = request.app.router.routes

    def served(method: str) -> bool:
        asked = "GET" if method == "HEAD" else method
        scope = {**request.scope, "method": asked}
        return any(route.matches(scope)[0] is Match.FULL for route in routes)

    return [method for method in METHODS if served(method)]


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


class Unexpected:
    """The last resort: a fault of this program is logged, and told as nothing but a fault."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if started or scope["type"] != "http":
                raise  # too late for another answer: the connection is cut
            log.exception("request_failed", path=scope["path"])
            response = error_response(ServiceError().body(), ServiceError.status)
            await response(scope, receive, send)
