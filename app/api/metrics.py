"""``/metrics`` and the middleware that counts requests by their route."""

from __future__ import annotations

from time import perf_counter
from typing import cast

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import openapi
from app.api.context import ServicesDep
from app.metrics import Metrics

OTHER = "other"  # a path of no route: the caller's words are no label

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={**openapi.ANY_ERROR, 200: {"content": openapi.text_answer("text/plain")}},
)
def metrics(services: ServicesDep, request: Request) -> Response:
    """Prometheus' text format."""
    found = cast("Metrics", request.app.state.metrics)
    return Response(
        found.render(services.database, services.settings), media_type=CONTENT_TYPE_LATEST
    )


class CountRequests:
    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", OTHER)
            method = scope["method"] if scope.get("route") else OTHER
            self._metrics.answered(method, route, status, perf_counter() - started)
