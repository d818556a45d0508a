"""A transcript that is followed while it is made: through the queue, past every kind of trouble."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import soundfile
from voxqueue_fake import FAULT

from app.db import queries
from app.db.engine import Database
from tests import places
from tests.harness import Service, calls, eventually, fake_model

ROUTE = "/v1/audio/transcriptions"
WINDOW = 30 * 16_000  # samples


def recording(*firsts: float) -> bytes:
    """Windows of a tone, each with a first sample of its own."""
    tone = (0.3 * np.sin(np.arange(WINDOW * len(firsts)) * 0.1)).astype(np.float32)
    tone[::WINDOW] = firsts
    file = io.BytesIO()
    soundfile.write(file, tone, 16_000, format="WAV", subtype="FLOAT")
    return file.getvalue()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake", streams=True, seconds=0.3)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    models = ("--stt-model", str(model), "--tts-model", "")
    service = Service(data, *models, VOXQUEUE_WINDOW_BATCH="1")
    yield service
    assert service.stop() == 0


@pytest.fixture
def hold(model: Path) -> Iterator[Path]:
    """While this file is there, the model does not come to an end."""
    yield model / "hold"
    (model / "hold").unlink(missing_ok=True)


@contextmanager
def streamed(service: Service, audio: bytes, **headers: str) -> Iterator[Iterator[Any]]:
    files, data = {"file": ("a.wav", audio)}, {"stream": "true"}
    with service.client.stream("POST", ROUTE, files=files, data=data, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache"
        yield events(answer)


def events(answer: httpx2.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line:
            kind, _, data = line.partition(": ")
            assert kind == "data"
            yield data if data == "[DONE]" else json.loads(data)


def delta(event: Any) -> str:
    assert event["type"] == "transcript.text.delta"
    assert event["delta"]
    return event["delta"]


def whole(service: Service, audio: bytes) -> Any:
    answer = service.client.post(ROUTE, files={"file": ("a.wav", audio)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def jobs(service: Service, status: str) -> list[str]:
    found = service.client.get("/v1/jobs", params={"status": status}).json()
    return [job["id"] for job in found["data"]]


def cancel_requested(service: Service, job_id: str) -> bool:
    with closing(Database(places.database_url(service.data))) as database, database.reading() as it:
        job = queries.get_job(it, job_id)
    assert job is not None
    return job.cancel_requested


def test_text_comes_while_it_is_made(service: Service, hold: Path) -> None:
    audio = recording(0.1, 0.2, 0.3)
    with streamed(service, audio) as stream:
        texts = [delta(next(stream))]
        hold.touch()
        assert jobs(service, "running")
        hold.unlink()
        texts += [delta(next(stream)), delta(next(stream))]
        done = next(stream)
        assert list(stream) == ["[DONE]"]
    assert done == whole(service, audio)
    assert "".join(texts) == done["text"]


def test_a_killed_worker_repeats_nothing(service: Service, hold: Path, model: Path) -> None:
    audio = recording(0.11, 0.21, 0.31)
    before = len(calls(model))
    with streamed(service, audio) as stream:
        texts = [delta(next(stream))]
        hold.touch()
        eventually(lambda: len(calls(model)) >= before + 2)
        service.kill("worker")
        hold.unlink()
        *more, done, end = stream
    texts += [delta(event) for event in more]
    assert end == "[DONE]"
    assert "".join(texts) == done["text"] == whole(service, audio)["text"]
    assert len(texts) == 3


def test_a_failure_after_the_first_text_is_a_last_event(service: Service) -> None:
    with streamed(service, recording(0.12, FAULT)) as stream:
        delta(next(stream))
        error, end = stream
    assert end == "[DONE]"
    assert error["error"]["message"] == "audio model inference failed: asked to fail"
    assert error["error"]["type"] == "server_error"
    assert "status" not in error["error"]


def test_a_failure_before_any_text_is_an_ordinary_answer(service: Service) -> None:
    files, data = {"file": ("a.wav", recording(FAULT))}, {"stream": "true"}
    answer = service.client.post(ROUTE, files=files, data=data)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "audio model inference failed: asked to fail"


def test_a_caller_that_hangs_up_cancels(service: Service, hold: Path) -> None:
    with streamed(service, recording(0.13, 0.23, 0.33)) as stream:
        delta(next(stream))
        hold.touch()
        (running,) = jobs(service, "running")
    eventually(lambda: cancel_requested(service, running))
    hold.unlink()
    eventually(lambda: running in jobs(service, "cancelled"))


def test_a_kept_job_goes_on_and_its_twin_hears_all_of_it(service: Service, hold: Path) -> None:
    audio, key = recording(0.14, 0.24, 0.34), {"Idempotency-Key": "again"}
    with streamed(service, audio, **key) as stream:
        first = delta(next(stream))
        hold.touch()
    hold.unlink()
    with streamed(service, audio, **key) as stream:
        *texts, done, end = stream
    assert end == "[DONE]"
    assert delta(texts[0]).startswith(first)
    assert "".join(map(delta, texts)) == done["text"]


def test_no_time_left_is_a_last_event(service: Service, hold: Path) -> None:
    with streamed(service, recording(0.15, 0.25, 0.35), Prefer="wait=3") as stream:
        delta(next(stream))
        hold.touch()
        *texts, error, end = stream
    assert all(map(delta, texts))
    assert error["error"]["type"] == "server_timeout"
    assert end == "[DONE]"


@pytest.mark.one_machine("the embedded Valkey")
def test_a_lost_broker_ends_the_stream(service: Service, hold: Path) -> None:
    with streamed(service, recording(0.16, 0.26, 0.36)) as stream:
        delta(next(stream))
        hold.touch()
        service.kill("valkey")
        *texts, error, end = stream
    hold.unlink()
    assert all(map(delta, texts))
    assert error["error"]["code"] == "unavailable"
    assert end == "[DONE]"
    eventually(service.ready)
    assert whole(service, recording(0.17))["text"]
