from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import numpy as np
import pytest
import soundfile

from tests.harness import ROOT, Service, alive, calls, eventually, fake_model


def recording(seconds: float = 1.0) -> bytes:
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(16_000 * seconds)) * 0.1)
    soundfile.write(file, tone, 16_000, format="WAV")
    return file.getvalue()


def transcribe(service: Service, audio: bytes) -> str:
    answer = service.client.post("/v1/audio/transcriptions", files={"file": ("a.wav", audio)})
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def test_speech_and_transcription(service: Service) -> None:
    speech = service.client.post(
        "/v1/audio/speech", json={"model": "any", "input": "Hello there. General."}
    )
    assert speech.status_code == 200, speech.text
    assert speech.headers["content-type"] == "audio/wav"
    assert speech.headers["content-disposition"] == "attachment; filename=speech.wav"
    assert transcribe(service, speech.content).startswith("transcribe:")


def test_a_model_failure_is_one_request_s_error(service: Service) -> None:
    answer = service.client.post("/v1/audio/speech", json={"model": "m", "input": "RAISE"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "audio model inference failed: asked to fail"
    assert transcribe(service, recording())


def test_a_killed_worker_is_restarted_and_the_next_request_is_served(service: Service) -> None:
    old = service.kill("worker")
    assert transcribe(service, recording(1.5))
    assert service.pids("worker")[-1] != old


def test_a_job_whose_worker_dies_is_done_by_the_next_one(service: Service, model: Path) -> None:
    answer = service.client.post("/v1/audio/speech", json={"model": "m", "input": "KILL-ONCE"})
    assert answer.status_code == 200, answer.text
    assert calls(model).count("say KILL-ONCE") == 2


def test_a_killed_front_door_is_restarted_without_refusing_a_connection(service: Service) -> None:
    service.kill("api")
    files = {"file": ("a.wav", recording(2.0))}
    answer = httpx2.post(f"{service.url}/v1/audio/transcriptions", files=files, timeout=60)
    assert answer.status_code == 200, answer.text


@pytest.mark.one_machine("the embedded Valkey")
def test_a_killed_broker_is_restarted(service: Service) -> None:
    service.kill("valkey")
    eventually(service.ready)
    assert transcribe(service, recording(2.5))


@pytest.mark.one_machine("the embedded Valkey")
def test_stop_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "fake")
    service = Service(
        tmp_path / "data", "--stt-model", str(model), "--tts-model", str(model), "--split-workers"
    )
    pids = [pid for child in ("valkey", "worker", "api") for pid in service.pids(child)]
    assert len(pids) == 4
    assert service.stop(signal.SIGINT) == 0
    assert not any(alive(pid) for pid in pids)


@pytest.mark.one_machine("the embedded Valkey")
def test_a_killed_supervisor_leaves_no_orphan(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "fake")
    service = Service(tmp_path / "data", "--stt-model", str(model), "--tts-model", str(model))
    pids = [pid for child in ("valkey", "worker", "api") for pid in service.pids(child)]
    service.process.kill()
    eventually(lambda: not any(alive(pid) for pid in pids))
    service.stop()


def test_two_services_cannot_share_a_data_directory(service: Service) -> None:
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--data-dir"]
    second = subprocess.run(
        [*command, str(service.data)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"another `voxqueue serve` uses {service.data}" in second.stderr
