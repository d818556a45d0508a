"""Requests by the byte: forms as hostile clients build them, and sockets that stop half-way."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np
import soundfile

BOUNDARY = "edge"
MEBIBYTE = 1 << 20
LIMIT = 25 * MEBIBYTE


def recording(seconds: float = 0.5, *, step: float = 0.1, rate: int = 16_000) -> bytes:
    """A WAV file; another ``step`` is another content."""
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(rate * seconds)) * step)
    soundfile.write(file, tone, rate, format="WAV")
    return file.getvalue()


def part(name: str, value: bytes | str, filename: str | None = None, *, extra: str = "") -> bytes:
    disposition = f'form-data; name="{name}"'
    if filename is not None:
        disposition += f'; filename="{filename}"'
    return raw_part(disposition + extra, value)


def raw_part(disposition: str | bytes, value: bytes | str) -> bytes:
    head = disposition.encode() if isinstance(disposition, str) else disposition
    body = value.encode() if isinstance(value, str) else value
    return b"Content-Disposition: " + head + b"\r\n\r\n" + body


def form(*parts: bytes, boundary: str = BOUNDARY, end: bool = True) -> dict[str, Any]:
    """Keyword arguments of a POST with exactly these parts."""
    edge = b"--" + boundary.encode()
    body = b"".join(edge + b"\r\n" + item + b"\r\n" for item in parts)
    return {
        "content": body + edge + b"--\r\n" if end else body,
        "headers": {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def error(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/json"
        error = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class Wire:
    """A connection that says just what it is told."""

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout)
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def head(self, path: str, *headers: str, method: str = "POST") -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode("latin-1"))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)
        self.sent += len(data)

    def send_until_closed(self, chunks: Iterable[bytes]) -> None:
        """Write on as a client does that never looks for an answer."""
        for chunk in chunks:
            try:
                self.send(chunk)
            except (BrokenPipeError, ConnectionResetError):
                return

    def chunk(self, data: bytes) -> bytes:
        return f"{len(data):x}\r\n".encode() + data + b"\r\n"

    def answer(self) -> Answer:
        file = self.socket.makefile("rb")
        status = int(file.readline().split()[1])
        headers = {}
        while line := file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", 0)))
        return Answer(status=status, headers=headers, body=body)

    def closed(self) -> bool:
        """Whether the other side has hung up, by now or within the timeout."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            return True
        return True
