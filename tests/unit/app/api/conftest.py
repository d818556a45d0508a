from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from starlette.requests import Request


class Exchange:
    """One request to an ASGI application without a socket: what it was asked, what it sent."""

    def __init__(self, chunks: Sequence[bytes], headers: dict[str, str], method: str) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": "/",
            "query_string": b"",
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
        }
        self.chunks = list(chunks)
        self.received = 0
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self.received == len(self.chunks):
            await asyncio.Event().wait()  # a client that says nothing more
        self.received += 1
        return {
            "type": "http.request",
            "body": self.chunks[self.received - 1],
            "more_body": self.received < len(self.chunks) or self.endless,
        }

    endless = False

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def run(self, app: Any) -> None:
        asyncio.run(app(self.scope, self.receive, self.send))

    @property
    def request(self) -> Request:
        return Request(self.scope, self.receive)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


@pytest.fixture(scope="session")
def exchange() -> Callable[..., Exchange]:
    def make(
        *chunks: bytes, headers: dict[str, str] | None = None, method: str = "POST"
    ) -> Exchange:
        return Exchange(chunks, headers or {}, method)

    return make
