"""HEAD wherever there is GET: the same answer; the server leaves the body out (RFC 9110, 9.3.2)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

MARK = "voxqueue.head"


class HeadAsGet:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A copy: by the original the server still knows that no body may follow.
        is_asked = scope.get("method") == "HEAD"
        asked = {**scope, "method": "GET", MARK: True} if is_asked else scope
        await self._app(asked, receive, send)


def is_head(request: Request) -> bool:
    return MARK in request.scope
