"""The service as the archive sees it: submit, look, fetch; patient while it is away or busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import httpx2

from app.clock import new_id

RETRIED = frozenset({408, 425, 429, 502, 503, 504})  # worth another try, the last for a while
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 10.0
PATIENCE_SECONDS = 300.0  # with a server that does not answer, or refuses everything
FIRST_CONTACT_SECONDS = 10.0
TIMEOUT = httpx2.Timeout(60.0, read=300.0, write=300.0)
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None)  # threads are bounded
LOOK_SECONDS = 2  # s between two looks at a job: how late it may be known that a run is to stop
WAIT = {"Prefer": f"wait={LOOK_SECONDS}"}
CHUNK = 1 << 18  # bytes written at a time


class Refused(Exception):
    """The service has an answer, and it is no: the message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Away(Exception):
    """There is no service, or none that takes work; what was done so far is kept."""


class Stopped(Exception):
    """Somebody has asked the run to stop."""


def reach(url: str) -> str:
    """The address, once a service has answered there; raises Away at once when none does.

    Patience is for a service that goes away later; at the start the address is wrong.
    """
    try:
        answer = httpx2.get(f"{url.rstrip('/')}/health", timeout=FIRST_CONTACT_SECONDS)
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise Away(f"no service answers at {url}: {error}") from None
    if not answer.is_success:
        raise Away(f"{url} is not a Voxqueue: GET /health answered {answer.status_code}")
    return url


class Server:
    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        stop: threading.Event,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT, limits=LIMITS)
        self._stop = stop
        self._patience = patience_seconds

    def close(self) -> None:
        self._client.close()

    def submit(self, fields: dict[str, str], file: BinaryIO | None = None, name: str = "") -> str:
        """The job's id. Repeated as often as it takes, under one key, it makes one job."""
        headers = {"Idempotency-Key": new_id("arc")}
        parts: dict[str, Any] = {key: (None, value) for key, value in fields.items()}

        def post() -> httpx2.Response:
            if file:
                file.seek(0)
                parts["file"] = (name, file)
            return self._client.post("/v1/jobs", files=parts, headers=headers)

        return str(self._patiently(post).json()["id"])

    def finished(self, job_id: str, over: threading.Event | None = None) -> dict[str, Any]:
        """The job once it is final. Raises Stopped when the run or ``over`` ends before that."""
        while True:
            asked = time.monotonic()
            job: dict[str, Any] = self._get(f"/v1/jobs/{job_id}", headers=WAIT).json()
            if job["status"] not in ("queued", "running"):
                return job
            # What is between it and a service that would wait may have answered at once.
            left = max(0.0, asked + LOOK_SECONDS - time.monotonic())
            if self._stop.is_set() or (over or self._stop).wait(left):
                raise Stopped

    def result(self, job_id: str, format_: str) -> bytes:
        """Of a job that has succeeded: that of another is its error, asked for again and again."""
        return self._get(f"/v1/jobs/{job_id}/result", params={"format": format_}).content

    def timing(self, job_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/v1/jobs/{job_id}/timing").json()
        return found

    def download(self, job_id: str, file: BinaryIO) -> None:
        def get() -> httpx2.Response:
            file.seek(0)
            file.truncate()
            path = f"/v1/jobs/{job_id}/result"  # which may send one on to a store
            with self._client.stream("GET", path, follow_redirects=True) as response:
                if response.is_success:
                    file.writelines(response.iter_bytes(CHUNK))
                else:
                    response.read()
                return response

        self._patiently(get)

    def _get(self, path: str, **more: Any) -> httpx2.Response:
        return self._patiently(lambda: self._client.get(path, **more))

    def _patiently(self, call: Callable[[], httpx2.Response]) -> httpx2.Response:
        """Raises Refused for what no repetition changes, Away when patience is at an end."""
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE_SECONDS
        while True:
            if self._stop.is_set():
                raise Stopped
            asked = 0.0
            try:
                response = call()
                if response.is_success:
                    return response
                message = _message(response)
                if response.status_code not in RETRIED:
                    raise Refused(response.status_code, message)
                asked = _retry_after(response)
            except httpx2.TransportError as error:
                message = f"{type(error).__name__}: {error}"
            if time.monotonic() > deadline:
                raise Away(f"{self._client.base_url} does not take the work: {message}")
            self._stop.wait(max(pause, asked))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _message(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def _retry_after(response: httpx2.Response) -> float:
    given = response.headers.get("retry-after", "")
    return min(float(given), LONGEST_PAUSE_SECONDS) if given.isdecimal() else 0.0
