"""contract.md, "Errors": how large, how slow and how broken an upload may be."""

from __future__ import annotations

import os
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.wire import BOUNDARY, LIMIT, MEBIBYTE, Wire, form, part, recording
from tests.harness import Service, calls, eventually

ROUTE = "/v1/audio/transcriptions"
FORM = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
START = f"--{BOUNDARY}\r\n".encode() + part("file", recording(), "a.wav")
ZEROS = bytes(MEBIBYTE)


def too_large(wire: Wire) -> None:
    answer = wire.answer()
    assert answer.status == 413
    assert answer.error() == {
        "message": "Request body too large.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert answer.headers["connection"] == "close"


def resident(pid: int) -> int:
    """Bytes of memory that the process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leftovers(service: Service, pid: int) -> list[str]:
    """Files, deleted or not, that the process holds open for uploads, and half-stored blobs."""
    links = [str(item.readlink()) for item in Path(f"/proc/{pid}/fd").iterdir() if item.exists()]
    incoming = [str(item) for item in (service.data / "blobs" / "incoming").glob("*")]
    return [link for link in links if "deleted" in link] + incoming


@pytest.fixture
def unmoved(service: Service) -> Any:
    """The front door's memory and temporary files are afterwards what they were before."""
    pid = service.pids("api")[-1]
    service.client.post(ROUTE, **form(part("file", bytes(20 * MEBIBYTE), "a.wav")))
    before = resident(pid)
    yield
    eventually(lambda: not leftovers(service, pid))
    assert resident(pid) < before + 24 * MEBIBYTE


@pytest.mark.usefixtures("unmoved")
def test_413_honest_length_before_a_byte_is_sent(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, f"Content-Length: {LIMIT + 1}")
        too_large(wire)


def test_413_is_told_to_a_client_that_waits_for_100_continue(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, f"Content-Length: {1 << 40}", "Expect: 100-continue")
        too_large(wire)
        assert wire.closed()


@pytest.mark.usefixtures("unmoved")
def test_413_absent_length_as_soon_as_the_bound_is_passed(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, "Transfer-Encoding: chunked")
        wire.send(wire.chunk(START))
        for _ in range(25):
            wire.send(wire.chunk(ZEROS))
        too_large(wire)


def test_413_lying_length_that_is_too_short(service: Service) -> None:
    """Only what was declared is the body; the rest is not read as another request."""
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, "Content-Length: 1000")
        wire.send_until_closed([START, *repeat(ZEROS, 30)])
        answer = wire.answer()
        assert answer.status == 400
        assert answer.error()["message"].startswith("invalid multipart form-data: ")


@pytest.mark.usefixtures("unmoved")
def test_413_rest_of_an_endless_body_is_not_read(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, "Transfer-Encoding: chunked")
        wire.send(wire.chunk(START))
        wire.send_until_closed(repeat(wire.chunk(ZEROS), 2048))
        assert wire.sent < 200 * MEBIBYTE


@pytest.mark.usefixtures("unmoved")
def test_413_is_read_by_a_client_that_first_writes_all(service: Service) -> None:
    """Not a reset connection: what it still writes is taken for a moment."""
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, f"Content-Length: {40 * MEBIBYTE}")
        for _ in range(5):
            wire.send(ZEROS)
        too_large(wire)


def test_413_stock_client_reads_the_answer(client: httpx2.Client) -> None:
    answer = client.post(ROUTE, **form(part("file", bytes(LIMIT), "a.wav")))
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "Request body too large."


def test_413_on_speech_and_translations(client: httpx2.Client) -> None:
    body = b'{"model":"m","input":"' + b"a" * LIMIT + b'"}'
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/audio/speech", content=body, headers=headers).status_code == 413
    large = form(part("file", bytes(LIMIT), "a.wav"))
    assert client.post("/v1/audio/translations", **large).status_code == 413


def test_200_just_below_the_bound(client: httpx2.Client) -> None:
    body = form(part("file", recording(), "a.wav"), part("padding", b"x" * (LIMIT - 20_000)))
    assert LIMIT - 5_000 < len(body["content"]) <= LIMIT
    assert client.post(ROUTE, **body).status_code == 200


def test_413_comes_before_400_for_what_is_no_form(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(
            "/v1/audio/speech", "Content-Type: application/json", f"Content-Length: {1 << 40}"
        )
        too_large(wire)


def test_408_body_that_trickles(front_door: Any) -> None:
    door = front_door(upload_timeout_seconds=0.5, stt_model="", tts_model="")
    with Wire(door.url) as wire:
        wire.head(ROUTE, FORM, "Content-Length: 100000")
        wire.send(START[:100])
        answer = wire.answer()
        assert answer.status == 408
        assert answer.error()["type"] == "invalid_request_error"
        assert wire.closed()


def test_client_that_goes_away_while_it_uploads(service: Service) -> None:
    pid = service.pids("api")[-1]
    with Wire(service.url) as wire:
        wire.head(ROUTE, FORM, f"Content-Length: {20 * MEBIBYTE}")
        wire.send(START)
        for _ in range(5):
            wire.send(ZEROS)
        eventually(lambda: leftovers(service, pid))  # the upload has reached the disk
    eventually(lambda: not leftovers(service, pid))
    assert service.client.get("/health").status_code == 200


def latest_job(client: httpx2.Client) -> dict[str, Any]:
    return client.get("/v1/jobs?limit=1").json()["data"][0]


def test_client_that_goes_away_while_it_waits_cancels_a_queued_job(
    service: Service, model: Path, hold: Path
) -> None:
    with Wire(service.url) as first, Wire(service.url) as second:
        before = len(calls(model))
        post(first, recording(0.31))
        eventually(lambda: len(calls(model)) > before)  # the worker is busy
        post(second, recording(0.32))
        eventually(lambda: latest_job(service.client)["status"] == "queued")
        job = latest_job(service.client)["id"]
        second.socket.close()
        eventually(lambda: status(service, job) == "cancelled")
        hold.unlink()
        assert first.answer().status == 200
    assert len(calls(model)) == before + 1


def test_client_that_goes_away_while_its_job_runs_asks_to_cancel_it(
    service: Service, model: Path, hold: Path
) -> None:
    before = len(calls(model))
    with Wire(service.url) as wire:
        post(wire, recording(0.33))
        eventually(lambda: len(calls(model)) > before)
        job = latest_job(service.client)["id"]
    hold.unlink()
    eventually(lambda: status(service, job) in ("cancelled", "succeeded"))


def post(wire: Wire, audio: bytes) -> None:
    request = form(part("file", audio, "a.wav"))
    wire.head(ROUTE, FORM, f"Content-Length: {len(request['content'])}")
    wire.send(request["content"])


def status(service: Service, job: str) -> str:
    return service.client.get(f"/v1/jobs/{job}").json()["status"]
