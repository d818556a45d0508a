"""An id for each request: the caller's ``X-Request-ID`` when it is a plain token, else a new one.

It is bound to the log lines of the request, kept with the job, and sent back.
"""

from __future__ import annotations

import re

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import telemetry
from app.clock import new_id

HEADER = "x-request-id"
_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestId:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _TOKEN.fullmatch(given) else new_id("req")
        scope.setdefault("state", {})["request_id"] = request_id
        telemetry.note(request_id=request_id)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_with_id)
