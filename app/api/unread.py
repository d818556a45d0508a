"""An answer that comes before the whole request has arrived: send it, then hang up politely.

Closing a socket while the client still writes resets the connection, and the answer may be lost
with it. So the answer goes out first, whole; what still comes in is thrown away for a moment, in
which a sensible client reads the answer and stops; then the connection is closed. Nothing is read
to its end. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_SECONDS = 2.0
LINGER_BYTES = 26_214_400  # thrown away at most


class UnreadBody:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _has_body(Headers(scope=scope)):
            exchange = _Exchange(scope, receive, send)
            await self._app(scope, exchange.receive, exchange.send)
        else:
            await self._app(scope, receive, send)


class _Exchange:
    """One request with a body, and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        # A client that waits for "100 Continue" has sent nothing and shall not be told to go on.
        self._held_back = Headers(scope=scope).get("expect", "").lower() == "100-continue"
        self._whole = False
        self._cut_short = False

    async def receive(self) -> Message:
        self._held_back = False
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._whole = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._whole:
            self._cut_short = True
            MutableHeaders(scope=message)["Connection"] = "close"
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (last and self._cut_short):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        if not self._held_back:
            await self._linger()
        await self._send({"type": "http.response.body", "body": b""})

    async def _linger(self) -> None:
        left = LINGER_BYTES
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and not self._whole:
                    left -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
