"""This project's service as a system: started for the purpose, asked over HTTP."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

import httpx2

from benchmarks.alternate import HTTP
from benchmarks.runner import Message
from tests.harness import Service

WAV_HEADER, WAV_RATE = 44, 2 * 24_000  # bytes; bytes a second


@dataclass(frozen=True, slots=True)
class OverHttp:
    """The service with these models."""

    stt: str = ""
    tts: str = ""
    name: str = HTTP

    def start(self) -> Client:
        return Client(self)


class Client:
    def __init__(self, system: OverHttp) -> None:
        self.versions = {"voxqueue": version("voxqueue")}
        self._folder = tempfile.TemporaryDirectory()
        models = ("--stt-model", system.stt, "--tts-model", system.tts)
        self._service = Service(Path(self._folder.name), *models)

    def ask(self, request: Message) -> Message:
        """What the worker and its model took is in the job's metrics."""
        send = self._hear if "file" in request else self._say
        answer, seconds = send(request)
        (job,) = self._service.client.get("/v1/jobs?limit=1").json()["data"]
        took = job["metrics"]
        return {
            **answer,
            "seconds": seconds,
            "beyond_job": seconds - took["run_seconds"],
            "beyond_model": seconds - took["model_seconds"],
        }

    def _hear(self, request: Message) -> tuple[Message, float]:
        path = Path(request["file"])
        file = (path.name, path.read_bytes())
        response, seconds = self._post("/v1/audio/transcriptions", files={"file": file})
        return {"text": response.json()["text"]}, seconds

    def _say(self, request: Message) -> tuple[Message, float]:
        body = {"model": "kokoro-82m", "input": request["text"], "response_format": "wav"}
        response, seconds = self._post("/v1/audio/speech", json=body)
        return {"audio_seconds": (len(response.content) - WAV_HEADER) / WAV_RATE}, seconds

    def _post(self, path: str, **content: object) -> tuple[httpx2.Response, float]:
        started = time.perf_counter()
        response = self._service.client.post(path, **content)  # type: ignore[arg-type] # one of two
        seconds = time.perf_counter() - started
        response.raise_for_status()
        return response, seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._service.stop()
        self._folder.cleanup()
