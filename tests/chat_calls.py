"""What a caller asks a chat model for on /v1, with tones of any length to ask about."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import soundfile

from tests.harness import Service

ROUTE = "/v1/audio/transcriptions"


def recording(
    seconds: float = 1.0, rate: int = 16_000, *, container: str = "WAV", **options: Any
) -> bytes:
    file = io.BytesIO()
    tone = 0.25 * np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate)
    soundfile.write(file, tone, rate, format=container, **options)
    return file.getvalue()


def post(
    service: Service, audio: bytes, route: str = ROUTE, name: str = "a.wav", **fields: str
) -> httpx2.Response:
    return service.client.post(route, files={"file": (name, audio)}, data=fields)


def heard(service: Service, audio: bytes, **fields: str) -> dict[str, Any]:
    answer = post(service, audio, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(service: Service, audio: bytes, **fields: str) -> str:
    answer = post(service, audio, **fields)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    return answer.json()["error"]["message"]


def streamed(service: Service, audio: bytes, **fields: str) -> tuple[list[str], dict[str, Any]]:
    """The deltas of a stream that keeps to its form, and the object at its end."""
    files, data = {"file": ("a.wav", audio)}, {"stream": "true", **fields}
    with service.client.stream("POST", ROUTE, files=files, data=data) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        frames = list(answer.iter_lines())
    assert frames[1::2] == [""] * (len(frames) // 2)
    *events, end = [frame.removeprefix("data: ") for frame in frames[::2]]
    assert end == "[DONE]"
    *deltas, done = map(json.loads, events)
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert all(event["delta"] for event in deltas)
    return [event["delta"] for event in deltas], done


@contextmanager
def curl(service: Service, file: Path, **fields: str) -> Iterator[Iterator[str]]:
    """The deltas that curl writes, each as it comes in; in the end curl is gone."""
    forms = [f"file=@{file}", *(f"{name}={value}" for name, value in fields.items())]
    command = ["curl", "-sSN", service.url + ROUTE]
    command += [word for form in forms for word in ("-F", form)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield (
                json.loads(line.removeprefix("data: "))["delta"]
                for line in process.stdout
                if "transcript.text.delta" in line
            )
        finally:
            process.kill()
