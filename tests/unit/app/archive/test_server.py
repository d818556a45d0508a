"""The service as the archive sees it, played by a few lines of HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from app.archive import server as server_module
from app.archive.server import Away, Refused, Server, Stopped, reach

Answer = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_wrong_address_is_told_at_once(free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    with pytest.raises(Away, match=f"no service answers at {url}"):
        reach(url)


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(Away, match="no service answers at"):
        reach(url)


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def serving(
    monkeypatch: pytest.MonkeyPatch, stop: threading.Event
) -> Iterator[Callable[..., Server]]:
    """A server that answers so; no pause is longer than it has to be."""
    made: list[Server] = []
    client = httpx2.Client
    monkeypatch.setattr(server_module, "FIRST_PAUSE_SECONDS", 0.0)

    def build(answer: Answer, **options: Any) -> Server:
        transport = httpx2.MockTransport(answer)
        monkeypatch.setattr(
            server_module.httpx2, "Client", lambda **given: client(**given, transport=transport)
        )
        made.append(Server("http://service", stop=stop, **options))
        return made[-1]

    yield build
    for server in made:
        server.close()


def test_a_job_is_waited_for_by_asking_for_its_end(
    serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOOK_SECONDS", 0.0)
    states = iter(["queued", "running", "succeeded"])
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["prefer"])
        return httpx2.Response(200, json={"id": "job_1", "status": next(states)})

    assert serving(answer).finished("job_1")["status"] == "succeeded"
    assert asked == [server_module.WAIT["Prefer"]] * 3


def test_waiting_ends_with_the_run_or_with_what_it_was_for(
    serving: Callable[..., Server], stop: threading.Event
) -> None:
    over = threading.Event()
    over.set()
    server = serving(lambda _: httpx2.Response(200, json={"status": "queued"}))
    with pytest.raises(Stopped):
        server.finished("job_1", over)
    stop.set()
    with pytest.raises(Stopped):
        server.finished("job_1")


def test_a_service_that_is_busy_or_away_is_asked_again(serving: Callable[..., Server]) -> None:
    answers = iter([503, 429, 500, 200])
    keys: set[str] = set()

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.add(request.headers["idempotency-key"])
        if (status := next(answers)) == 500:
            raise httpx2.ConnectError("away")
        return httpx2.Response(status, json={"id": "job_1"}, headers={"retry-after": "0"})

    assert serving(answer).submit({"kind": "speech"}) == "job_1"
    assert len(keys) == 1  # so that it makes one job


def test_patience_comes_to_an_end(serving: Callable[..., Server]) -> None:
    server = serving(lambda _: httpx2.Response(503), patience_seconds=0.0)
    with pytest.raises(Away, match="does not take the work: HTTP 503"):
        server.result("job_1", "text")


def test_what_no_repetition_changes_is_told(serving: Callable[..., Server]) -> None:
    body = {"error": {"message": "No input file found"}}
    with pytest.raises(Refused, match="No input file found"):
        serving(lambda _: httpx2.Response(400, json=body)).submit({})
