"""The blob server goes away while the service runs, and comes back."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import soundfile

from tests import engines
from tests.harness import Service, calls, eventually, fake_model

ASYNC = {"Prefer": "respond-async"}


def test_a_job_outlives_an_outage_of_the_storage(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "fake")
    port = engines.free_port()
    with engines.moto(port) as server:
        url = server.url()
        service = Service(
            tmp_path / "data",
            *("--stt-model", str(model), "--tts-model", str(model)),
            VOXQUEUE_STORAGE_URL=url,
            **server.env,
        )
    try:
        spoken = {"model": "m", "input": "Hello."}
        accepted = service.client.post("/v1/audio/speech", json=spoken, headers=ASYNC)
        assert accepted.status_code == 202
        job = accepted.headers["location"]
        eventually(lambda: service.client.get(job).json()["attempts"] >= 1)
        assert service.client.get("/ready").json()["checks"]["storage"] == "failed"
        upload = service.client.post(
            "/v1/audio/transcriptions", files={"file": ("a.wav", _wav())}, headers=ASYNC
        )
        assert upload.status_code == 503
        assert "retry-after" in upload.headers
        assert "127.0.0.1" not in upload.text
        eventually(lambda: "job_lost" in service.log)
        with engines.moto(port):
            eventually(lambda: service.client.get(job).json()["status"] == "succeeded", seconds=60)
            assert service.client.get(f"{job}/result").content.startswith(b"RIFF")
        assert calls(model).count("say Hello") >= 2
    finally:
        assert service.stop() == 0


def _wav() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(16_000, dtype=np.float32), 16_000, format="WAV")
    return file.getvalue()
