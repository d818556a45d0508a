"""Bytes promised to requests: one ledger, and one guard for each request.

A guard owns a request's encoded and host bytes from admission until its result is consumed, or
until anything goes wrong; it gives them back once, however often it is told to.
"""

from __future__ import annotations

import threading
from typing import Self

from models.preprocess.metrics import AudioMetrics


class MemoryRefused(Exception):
    """The bytes are not to be had."""


class Ledger:
    """What is reserved now. Bounds are inclusive."""

    def __init__(
        self, *, max_encoded_bytes: int, max_host_bytes: int, metrics: AudioMetrics
    ) -> None:
        self._max_encoded, self._max_host = max_encoded_bytes, max_host_bytes
        self._metrics = metrics
        self._lock = threading.Lock()
        self._encoded = self._host = 0

    @property
    def encoded_bytes(self) -> int:
        return self._encoded

    @property
    def host_bytes(self) -> int:
        return self._host

    def reserve(self, *, encoded_bytes: int, host_bytes: int) -> Reservation:
        """Both amounts or neither."""
        with self._lock:
            if self._encoded + encoded_bytes > self._max_encoded:
                raise MemoryRefused(queued_text(encoded_bytes, self._encoded, self._max_encoded))
            if self._host + host_bytes > self._max_host:
                raise MemoryRefused(
                    f"audio in-flight host-memory limit exceeded: request reservation {host_bytes}"
                    f" bytes, in flight {self._host}, maximum {self._max_host}"
                )
            self._change(encoded_bytes, host_bytes)
        return Reservation(self, encoded_bytes=encoded_bytes, host_bytes=host_bytes)

    def give_back(self, *, encoded_bytes: int, host_bytes: int) -> None:
        with self._lock:
            self._change(-encoded_bytes, -host_bytes)

    def _change(self, encoded: int, host: int) -> None:
        self._encoded += encoded
        self._host += host
        # Under the lock, so that a gauge never shows an older state after a newer one.
        self._metrics.set_reserved(encoded_bytes=self._encoded, host_bytes=self._host)


class Reservation:
    """The guard; a context manager that releases."""

    def __init__(self, ledger: Ledger, *, encoded_bytes: int, host_bytes: int) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._held: tuple[int, int] | None = (encoded_bytes, host_bytes)

    def release(self) -> None:
        with self._lock:
            held, self._held = self._held, None
        if held:
            self._ledger.give_back(encoded_bytes=held[0], host_bytes=held[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


def queued_text(request: int, queued: int, maximum: int) -> str:
    return (
        f"audio queued-memory limit exceeded: request {request} bytes, queued {queued}, "
        f"maximum {maximum}"
    )
