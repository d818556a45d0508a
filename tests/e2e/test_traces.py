"""A request and the work on it are one trace, whoever waits, and however often it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import recording
from tests.collector import Collector, Told, collector
from tests.harness import Service, eventually

SECRET = "Marmalade sandwiches"  # noqa: S105 - a text that must not be in any trace
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SPEECH, HEARD = "POST /v1/audio/speech", "POST /v1/audio/transcriptions"


@pytest.fixture(scope="module")
def traces() -> Iterator[Collector]:
    with collector() as made:
        yield made


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, model: Path, traces: Collector
) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    service = Service(data, "--stt-model", str(model), "--tts-model", str(model), **traces.env)
    yield service
    assert service.stop() == 0


def only(traces: Collector, name: str, **attributes: Any) -> Told:
    """The one such span, once it has come."""
    eventually(lambda: traces.spans(name, **attributes))
    (span,) = traces.spans(name, **attributes)
    return span


def say(service: Service, text: str, **headers: str) -> Any:
    body = {"model": "m", "input": text}
    return service.client.post("/v1/audio/speech", json=body, headers=headers)


def test_the_caller_s_own_trace_goes_on_to_the_worker(service: Service, traces: Collector) -> None:
    answer = say(service, SECRET, traceparent=CALLER, **{"X-Request-ID": "sync-1"})
    assert answer.status_code == 200
    asked = only(traces, SPEECH, request_id="sync-1")
    work = only(traces, "speech attempt", request_id="sync-1")
    assert (asked.service, work.service) == ("voxqueue-api", "voxqueue-worker")
    assert f"00-{asked.trace}-{asked.parent}-01" == CALLER
    assert (work.trace, work.parent) == (asked.trace, asked.id)
    assert work.attributes["voxqueue.outcome"] == "succeeded"
    assert traces.parts(work) == ["claim", "model", "encode", "store"]


def test_an_asynchronous_job_is_a_part_of_its_request(service: Service, traces: Collector) -> None:
    answer = service.client.post(
        "/v1/audio/transcriptions",
        files={"file": ("a.flac", recording())},
        headers={"Prefer": "respond-async", "X-Request-ID": "async-1"},
    )
    assert answer.status_code == 202
    asked = only(traces, HEARD, request_id="async-1")
    work = only(traces, "transcription attempt", job_id=answer.json()["id"])
    assert (work.trace, work.parent) == (asked.trace, asked.id)
    assert set(traces.parts(work)) == {"claim", "fetch", "decode", "model", "encode", "store"}


def test_a_later_attempt_belongs_to_the_same_request(service: Service, traces: Collector) -> None:
    headers = {"Prefer": "respond-async", "X-Request-ID": "twice-1"}
    answer = say(service, "KILL-ONCE", **headers)
    asked = only(traces, SPEECH, request_id="twice-1")
    work = only(traces, "speech attempt", job_id=answer.json()["id"])  # the first died untold
    assert (work.trace, work.parent) == (asked.trace, asked.id)
    assert work.attributes["voxqueue.attempt"] == 2


def test_a_failure_is_told_by_its_code(service: Service, traces: Collector) -> None:
    assert say(service, "RAISE", **{"X-Request-ID": "failed-1"}).status_code == 500
    for name in (SPEECH, "speech attempt"):
        assert only(traces, name, request_id="failed-1").failed
    work = only(traces, "speech attempt", request_id="failed-1")
    assert work.attributes["error.type"] == "model_failed"
    assert not any(b"asked to fail" in body for body in traces.bodies)


def test_no_text_is_in_any_trace_and_no_probe_is_traced(
    service: Service, traces: Collector
) -> None:
    assert service.ready()
    say(service, f"{SECRET}. Again.", **{"X-Request-ID": "last-1"})
    only(traces, "speech attempt", request_id="last-1")
    assert not traces.spans("GET /ready")
    assert not any(SECRET.encode() in body for body in traces.bodies)
