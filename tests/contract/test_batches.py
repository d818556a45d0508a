"""Files and batches, driven by the stock OpenAI SDK."""

from __future__ import annotations

import http.server
import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from openai import OpenAI

from tests.harness import Service, calls, eventually, fake_model

STT = "/v1/audio/transcriptions"
TTS = "/v1/audio/speech"


def recording(seed: int, seconds: float = 1.0) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, int(16_000 * seconds))
    soundfile.write(file, noise, 16_000, format="WAV")
    return file.getvalue()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    models = ("--stt-model", str(model), "--tts-model", str(model))
    limits = {"VOXQUEUE_BATCH_IN_FLIGHT": "32", "VOXQUEUE_SWEEP_SECONDS": "0.3"}
    service = Service(data, *models, VOXQUEUE_SOURCE_ALLOW="127.0.0.1", **limits)
    yield service
    assert service.stop() == 0


@pytest.fixture
def client(service: Service) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        yield client


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/there"):
            self.send_response(302)
            self.send_header("Location", "/clip.wav")
            self.end_headers()
        elif self.path.startswith("/inside"):
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest")
            self.end_headers()
        elif self.path.endswith(".wav"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(recording(77))
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def line(custom_id: str, url: str = STT, **body: Any) -> str:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body})


def start(client: OpenAI, lines: list[str], endpoint: str = STT, **more: Any) -> Any:
    data = "\n".join(lines).encode()
    file = client.files.create(file=("requests.jsonl", data), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more
    )


def ended(client: OpenAI, batch: Any, *, seconds: float = 30.0) -> Any:
    eventually(
        lambda: (
            client.batches.retrieve(batch.id).status
            in ("completed", "failed", "expired", "cancelled")
        ),
        seconds=seconds,
    )
    return client.batches.retrieve(batch.id)


def results(client: OpenAI, file_id: str | None) -> dict[str, Any]:
    """By custom id."""
    assert file_id
    entries = [json.loads(text) for text in client.files.content(file_id).text.splitlines()]
    assert len({entry["id"] for entry in entries}) == len(entries)
    return {entry["custom_id"]: entry for entry in entries}


def test_files_are_kept_listed_read_and_deleted(client: OpenAI) -> None:
    made = [client.files.create(file=("a.jsonl", b"one"), purpose="batch") for _ in range(3)]
    file = client.files.retrieve(made[0].id)
    assert (file.object, file.bytes, file.filename, file.purpose) == ("file", 3, "a.jsonl", "batch")
    assert file.expires_at
    assert file.expires_at > file.created_at
    assert client.files.content(file.id).content == b"one"
    listed = [found.id for found in client.files.list(limit=2)]  # the SDK follows the pages
    assert listed[:3] == [found.id for found in reversed(made)]
    assert client.files.delete(file.id).deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(file.id)


def test_a_file_says_how_long_it_is_kept(client: OpenAI) -> None:
    file = client.files.create(
        file=("a", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 7200}
    )
    assert file.expires_at == file.created_at + 7200


@pytest.mark.parametrize(("purpose", "param"), [("fine-tune", "purpose"), ("", "purpose")])
def test_a_file_for_something_else_is_refused(client: OpenAI, purpose: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.create(file=("a", b"x"), purpose=purpose)
    assert caught.value.param == param


def test_a_batch_of_transcriptions(client: OpenAI, web: str) -> None:
    audio = client.files.create(file=("a.wav", recording(1)), purpose="user_data")
    batch = start(
        client,
        [
            line("plain", file=audio.id, model="whisper-1"),
            line("verbose", file=audio.id, response_format="verbose_json", language="de"),
            line("srt", file=audio.id, response_format="srt"),
            line("web", file=f"{web}/clip.wav"),
            line("moved", file=None).replace('"file": null', f'"url": "{web}/there"'),
        ],
        metadata={"who": "me"},
    )
    assert batch.status == "validating"
    assert batch.metadata == {"who": "me"}
    batch = ended(client, batch)
    assert batch.status == "completed", batch
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (5, 5, 0)
    assert batch.error_file_id is None
    assert batch.completed_at >= batch.finalizing_at >= batch.in_progress_at >= batch.created_at
    found = results(client, batch.output_file_id)
    bodies = {name: entry["response"]["body"] for name, entry in found.items()}
    assert all(entry["response"]["status_code"] == 200 for entry in found.values())
    assert bodies["plain"]["text"].startswith("transcribe:")
    assert bodies["verbose"]["language"] == "german"
    assert bodies["verbose"]["segments"][0]["end"] == 1.0
    assert bodies["srt"].startswith("1\n00:00:00,000 --> 00:00:01,000\n")
    assert bodies["web"] == bodies["moved"]


def test_a_line_at_fault_is_that_line_s_error(client: OpenAI, web: str) -> None:
    audio = client.files.create(file=("a.wav", recording(2)), purpose="user_data")
    lines = {
        "good": line("good", file=audio.id),
        "twice": line("good", file=audio.id),
        "json": "{",
        "list": "[]",
        "anonymous": json.dumps({"method": "POST", "url": STT, "body": {"file": audio.id}}),
        "get": json.dumps({"custom_id": "get", "method": "GET", "url": STT, "body": {}}),
        "elsewhere": line("elsewhere", TTS, input="x"),
        "empty": line("empty"),
        "format": line("format", file=audio.id, response_format="mp3"),
        "type": line("type", file=audio.id, language=3),
        "missing": line("missing", file=f"file-{'0' * 32}"),
        "noaudio": line("noaudio", file=f"{web}/nothing"),
        "inside": line("inside", file="http://10.0.0.1/"),
        "metadata": line("metadata", file=f"{web}/inside"),
        "bucket": line("bucket", file="s3://somebody/else"),
        "path": line("path", file="/etc/passwd"),
        "long": "x" * 600_000,
    }
    batch = ended(client, start(client, list(lines.values())))
    assert batch.status == "completed"
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (len(lines), 1, len(lines) - 1)
    assert set(results(client, batch.output_file_id)) == {"good"}
    text = client.files.content(batch.error_file_id).text
    errors = [json.loads(entry) for entry in text.splitlines()]
    assert [int(entry["id"].rpartition("_")[2]) for entry in errors] == list(range(2, 18))
    assert all(entry["response"] is None for entry in errors)
    told = {entry["custom_id"]: entry["error"]["message"] for entry in errors}
    assert "refused: 169.254.169.254" in told["metadata"]
    assert "refused: 10.0.0.1" in told["inside"]
    assert "HTTP 404" in told["noaudio"]
    assert "not opened here" in told["bucket"]


def test_a_recording_that_cannot_be_read_and_a_model_that_fails(client: OpenAI) -> None:
    noise = client.files.create(file=("a.wav", b"nothing"), purpose="user_data")
    batch = ended(client, start(client, [line("bad", file=noise.id)]))
    error = results(client, batch.error_file_id)["bad"]
    assert "not a RIFF/WAVE file" in error["error"]["message"]
    batch = ended(client, start(client, [line("raise", TTS, input="RAISE", model="m")], TTS))
    error = results(client, batch.error_file_id)["raise"]
    assert error["response"]["status_code"] == 500
    assert error["response"]["body"]["error"]["code"] == "model_failed"


def test_a_batch_of_speech(client: OpenAI) -> None:
    lines = [line(f"s{n}", TTS, model="m", input=f"Sentence {n}. And on.") for n in range(5)]
    batch = ended(client, start(client, lines, TTS))
    assert batch.request_counts.completed == 5
    for entry in results(client, batch.output_file_id).values():
        body = entry["response"]["body"]
        wav = client.files.content(body["file_id"]).content
        assert len(wav) == body["bytes"]
        assert soundfile.info(io.BytesIO(wav)).duration == pytest.approx(body["duration"])


def test_nothing_is_worked_out_twice_across_batches(client: OpenAI, model: Path) -> None:
    audio = [
        client.files.create(file=(f"{n}.wav", recording(3)), purpose="user_data") for n in range(3)
    ]
    before = len(calls(model))
    for _ in range(2):
        lines = [line(f"l{n}", file=file.id) for n, file in enumerate(audio)]
        batch = ended(client, start(client, lines))
        assert batch.request_counts.completed == 3
    assert len(calls(model)) == before + 1


def test_a_batch_is_cancelled(client: OpenAI, model: Path) -> None:
    hold = model / "hold"
    hold.touch()
    try:
        lines = [line(f"c{n}", TTS, model="m", input=f"Cancelled {n}.") for n in range(100)]
        batch = start(client, lines, TTS)
        eventually(lambda: client.batches.retrieve(batch.id).status == "in_progress")
        assert client.batches.cancel(batch.id).status == "cancelling"
    finally:
        hold.unlink()
    batch = ended(client, batch)
    assert batch.status == "cancelled"
    counts = batch.request_counts
    assert counts.completed + counts.failed == counts.total == 100
    errors = results(client, batch.error_file_id)
    assert all(entry["error"]["code"] == "batch_cancelled" for entry in errors.values())
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


def test_what_cannot_be_a_batch(client: OpenAI) -> None:
    empty = ended(client, start(client, ["", " "]))
    assert empty.status == "failed"
    assert empty.errors.data[0].code == "empty_file"
    file = client.files.create(file=("a", b"{}"), purpose="batch")
    with pytest.raises(openai.BadRequestError):
        client.batches.create(
            input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
        )
    with pytest.raises(openai.BadRequestError):
        client.batches.create(
            input_file_id=file.id,
            endpoint=STT,
            completion_window="9d",  # type: ignore[arg-type]  # the SDK knows 24h only
        )
    with pytest.raises(openai.NotFoundError):
        client.batches.create(
            input_file_id="file-none",
            endpoint=STT,  # type: ignore[arg-type]
            completion_window="24h",
        )


def test_batches_are_listed_newest_first(client: OpenAI) -> None:
    made = [start(client, [line("x", TTS, model="m", input="x")], TTS).id for _ in range(3)]
    listed = [batch.id for batch in client.batches.list(limit=2)]
    assert listed[:3] == made[::-1]


def test_a_front_door_that_is_killed_loses_no_line_and_doubles_none(
    client: OpenAI, service: Service, model: Path
) -> None:
    texts = [f"Survivor {n}" for n in range(150)]
    lines = [line(text, TTS, model="m", input=f"{text}.") for text in texts]
    batch = start(client, lines, TTS)
    eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed > 10)
    service.kill("api")
    eventually(service.ready)
    batch = ended(client, batch)
    assert batch.request_counts.completed == 150
    assert list(results(client, batch.output_file_id)) == texts
    said = [call for call in calls(model) if call.startswith("say Survivor")]
    assert sorted(said) == sorted(f"say {text}" for text in texts)
    jobs = service.client.get("/v1/jobs", params={"batch": batch.id, "limit": 100}).json()
    assert len(jobs["data"]) == 100
    assert time.time() < batch.expires_at
