"""Uvicorn's HTTP/1.1, with OpenAI's envelope also for what is not HTTP at all.

Such bytes never reach the application: uvicorn itself answers them, in plain text if left alone.
"""

from __future__ import annotations

import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.errors import BadRequest


class Protocol(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(json.dumps({"error": BadRequest(msg).body()}).encode())
        self.transport.close()

    def _refuse(self, body: bytes) -> None:
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=BadRequest.status, headers=headers, reason="Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
