"""One POST to an address that somebody else chose: guarded, bounded in time, and nothing followed.

Every address of the host is judged after it was looked up, and the connection goes to a judged one,
so that a name cannot be one thing when it is checked and another when it is used. Redirects are
answers like any other, and proxies of the environment are not asked.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore2
from httpcore2 import SOCKET_OPTION, ConnectionPool, NetworkBackend, NetworkStream, SyncBackend

from app.jobs.callbacks import Forbidden, resolve
from app.scrub import scrubbed


class NotDelivered(Exception):
    """There was no answer: the message says why."""


class GuardedBackend(NetworkBackend):
    """Connects to public and to allow-listed addresses only, and for so long."""

    def __init__(self, allow: str, seconds: float) -> None:
        self._allow = allow
        self._deadline = time.monotonic() + seconds
        self._backend = SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> NetworkStream:
        try:
            addresses = resolve(host, port, self._allow)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} does not resolve: {error}") from error
        stream = self._backend.connect_tcp(
            addresses[0], port, timeout, local_address, socket_options
        )
        return DeadlineStream(stream, self._deadline)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class DeadlineStream(NetworkStream):
    """Ends at its time, even with a peer that sends a byte now and then."""

    def __init__(self, stream: NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("the answer took too long")
        return left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - one deadline holds for all
        return self._stream.read(max_bytes, self._left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as for read
        self._stream.write(buffer, self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - as for read
    ) -> NetworkStream:
        secure = self._stream.start_tls(ssl_context, server_hostname, self._left())
        return DeadlineStream(secure, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def post(url: str, body: bytes, headers: dict[str, str], *, seconds: float, allow: str) -> int:
    """The status of the answer, whose body is not read. Raises NotDelivered."""
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
    try:
        with (
            ConnectionPool(network_backend=GuardedBackend(allow, seconds)) as pool,
            pool.stream(
                "POST",
                url,
                headers=list(headers.items()),
                content=body,
                extensions={"timeout": timeouts},
            ) as response,
        ):
            return response.status
    except Forbidden as error:
        raise NotDelivered(f"refused: {error}") from error
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        raise NotDelivered(f"{type(error).__name__}: {scrubbed(error)}") from error
