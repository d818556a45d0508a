"""The door: a bearer token where keys are asked for. What comes in belongs to its key."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import anyio.to_thread
import structlog
from sqlalchemy.exc import DBAPIError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app import access
from app.api.context import services
from app.api.errors import error_response
from app.errors import ServiceError, Unauthorized, Unavailable
from app.settings import Settings

if TYPE_CHECKING:
    from app.limiter import Limiter

OPEN = ("/health", "/ready")  # what a load balancer asks; neither tells anything of jobs

log = structlog.get_logger()


class ApiKeys:
    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app, self._settings = app, settings

    @cached_property
    def _limiter(self) -> Limiter:
        from app.limiter import Limiter

        return Limiter(self._settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN or not self._settings.asks_for_keys:
            await self._app(scope, receive, send)
            return
        try:
            owner = await anyio.to_thread.run_sync(self._enter, Request(scope))
        except ServiceError as error:
            response = error_response(error.body(), error.status, error.headers)
            await response(scope, receive, send)
            return
        scope.setdefault("state", {})["owner"] = owner
        with structlog.contextvars.bound_contextvars(key=owner):
            await self._app(scope, receive, send)

    def _enter(self, request: Request) -> str:
        """The id of the caller's key; raises Unauthorized, TooManyRequests or Unavailable."""
        try:
            key = access.authenticate(services(request).database, _token(request.headers))
        except DBAPIError as error:
            raise Unavailable from error
        self._limiter.count(key)
        return key.id


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized
    return token.strip()
