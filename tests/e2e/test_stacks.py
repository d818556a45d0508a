"""The same scenarios on the stack of one machine and on servers: nothing but three URLs differs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests import engines
from tests.harness import Service, calls, eventually, fake_model


def recording(seconds: float) -> bytes:
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(16_000 * seconds)) * 0.1)
    soundfile.write(file, tone, 16_000, format="WAV")
    return file.getvalue()


@pytest.fixture(scope="module", params=["one machine", "servers"])
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: Path
) -> Iterator[Service]:
    env: dict[str, str] = {}
    with ExitStack() as started:
        if request.param == "servers":
            postgres = started.enter_context(engines.postgres())
            valkey = engines.valkey(tmp_path_factory.mktemp("valkey"), password="s3cret")  # noqa: S106 - of this test's server
            weed = started.enter_context(engines.seaweedfs(tmp_path_factory.mktemp("weed")))
            env = {
                "VOXQUEUE_DATABASE_URL": started.enter_context(postgres.database()),
                "VOXQUEUE_BROKER_URL": started.enter_context(valkey),
                "VOXQUEUE_STORAGE_URL": weed.url(),
                **weed.env,
            }
        models = ("--stt-model", str(model), "--tts-model", str(model))
        service = Service(tmp_path_factory.mktemp("data"), *models, **env)
        yield service
        assert service.stop() == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


def test_speech_and_its_transcription(stack: Service) -> None:
    speech = stack.client.post("/v1/audio/speech", json={"model": "m", "input": "Hello there."})
    assert speech.status_code == 200, speech.text
    heard = stack.client.post("/v1/audio/transcriptions", files={"file": ("a.wav", speech.content)})
    assert heard.status_code == 200, heard.text
    assert heard.json()["text"].startswith("transcribe:")


def test_a_long_recording(stack: Service) -> None:
    files = {"file": ("long.wav", recording(95))}
    answer = stack.client.post("/v1/audio/translations", files=files)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"].count("translate:") == 4


def test_an_asynchronous_job_and_its_result(stack: Service) -> None:
    accepted = stack.client.post(
        "/v1/audio/transcriptions",
        files={"file": ("a.wav", recording(2.0))},
        headers={"Prefer": "respond-async"},
    )
    assert accepted.status_code == 202
    job = accepted.headers["location"]
    eventually(lambda: stack.client.get(job).json()["status"] == "succeeded")
    result = stack.client.get(f"{job}/result?format=srt")
    assert result.status_code == 200
    assert "00:00:00,000 --> 00:00:02,000" in result.text
    listed = stack.client.get("/v1/jobs?limit=1").json()["data"]
    assert job.endswith(listed[0]["id"])


def test_a_worker_that_dies_in_the_middle(stack: Service, model: Path) -> None:
    (model / "killed").unlink(missing_ok=True)
    before = calls(model).count("say KILL-ONCE")
    answer = stack.client.post("/v1/audio/speech", json={"model": "m", "input": "KILL-ONCE"})
    assert answer.status_code == 200, answer.text
    assert calls(model).count("say KILL-ONCE") == before + 2


def test_the_front_door_says_what_it_stands_on(stack: Service) -> None:
    eventually(stack.ready)
    checks = stack.client.get("/ready").json()["checks"]
    assert checks == dict.fromkeys(["database", "schema", "broker", "storage", "workers"], "ok")


def test_metrics(stack: Service) -> None:
    names = (
        'voxqueue_jobs_finished_total{kind="speech",state="succeeded"} 2.0',
        'voxqueue_requests_total{method="POST",route="/v1/audio/speech",status="200"} 2.0',
        'voxqueue_workers{capability="stt"} 1.0',
        'voxqueue_real_time_factor_bucket{kind="speech"',
        'voxqueue_job_redeliveries_total{kind="speech"} 1.0',
        'voxqueue_worker_memory_bytes{of="resident"',
        "voxqueue_lease_age_seconds 0.0",
    )

    def missing() -> list[str]:
        found = stack.client.get("/metrics").text
        return [name for name in names if name not in found]

    eventually(lambda: not missing())


def test_logs_follow_a_request_to_its_worker_and_hold_no_text(stack: Service) -> None:
    spoken = {"model": "m", "input": "Confidential pineapple."}
    headers = {"X-Request-ID": "trace-me-17"}
    answer = stack.client.post("/v1/audio/speech", json=spoken, headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "trace-me-17")
    broken = {"model": "m", "input": "RAISE"}
    assert stack.client.post("/v1/audio/speech", json=broken).status_code == 500
    ended = [line for line in stack.log.splitlines() if "trace-me-17" in line]
    assert any('"job_id": "job_' in line for line in ended), ended
    assert "pineapple" not in stack.log
    assert "s3cret" not in stack.log
