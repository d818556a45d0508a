"""The bulk lane: jobs that nobody waits for, and results that are never worked out twice."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import soundfile

from tests.harness import calls, eventually


def recording(seed: int, seconds: float = 1.0) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, int(16_000 * seconds))
    soundfile.write(file, noise, 16_000, format="WAV")
    return file.getvalue()


def submit(client: httpx2.Client, audio: bytes | None = None, **fields: str) -> dict[str, Any]:
    files = {"file": ("a.wav", audio)} if audio else {"unused": ("b", b"")}
    answer = client.post("/v1/jobs", files=files, data=fields)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    return answer.json()


def finished(client: httpx2.Client, job: dict[str, Any]) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def done() -> bool:
        seen.append(client.get(f"/v1/jobs/{job['id']}").json())
        return seen[-1]["status"] not in ("queued", "running")

    eventually(done)
    assert seen[-1]["status"] == "succeeded", seen[-1]
    return seen[-1]


def text(client: httpx2.Client, job: dict[str, Any]) -> str:
    return client.get(f"/v1/jobs/{job['id']}/result", params={"format": "text"}).text


def test_a_result_is_never_worked_out_twice(client: httpx2.Client, model: Path) -> None:
    audio = recording(1)
    first = finished(client, submit(client, audio))
    before = len(calls(model))
    second = finished(client, submit(client, audio))
    assert second["id"] != first["id"]
    assert second["metrics"]["reused"] == 1.0
    assert second["metrics"]["audio_seconds"] == first["metrics"]["audio_seconds"] == 1.0
    assert text(client, first) == text(client, second)
    assert len(calls(model)) == before


@pytest.mark.parametrize("fields", [{"force": "true"}, {"language": "de"}, {"kind": "translation"}])
def test_other_options_or_force_work_it_out_anew(
    client: httpx2.Client, model: Path, fields: dict[str, str]
) -> None:
    audio = recording(2)
    finished(client, submit(client, audio))
    before = len(calls(model))
    job = finished(client, submit(client, audio, **fields))
    assert "reused" not in job["metrics"]
    assert len(calls(model)) == before + 1


def test_twins_in_the_queue_are_worked_out_once(
    client: httpx2.Client, model: Path, hold: Path
) -> None:
    before = len(calls(model))
    jobs = [submit(client, recording(3)) for _ in range(5)]
    hold.unlink()
    done = [finished(client, job) for job in jobs]
    assert len(calls(model)) == before + 1
    assert sum(job["metrics"].get("reused", 0) for job in done) == 4


def test_what_is_beyond_the_bounds_of_waiting_callers_is_taken(client: httpx2.Client) -> None:
    audio = recording(4, seconds=601)
    refused = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", audio)})
    assert refused.status_code == 400
    job = finished(client, submit(client, audio, timestamps="true"))
    assert job["metrics"]["audio_seconds"] == 601.0
    srt = client.get(f"/v1/jobs/{job['id']}/result", params={"format": "srt"}).text
    assert srt.startswith("1\n00:00:00,000 --> ")
    assert "00:10:01,000" in srt


def test_speech_is_not_cut_and_has_a_timing(client: httpx2.Client) -> None:
    sentences = [f"This is sentence number {n}" for n in range(400)]
    job = finished(client, submit(client, kind="speech", input=". ".join(sentences) + "."))
    timing = client.get(f"/v1/jobs/{job['id']}/timing").json()
    assert [part["text"] for part in timing] == sentences
    assert timing[0]["start"] == 0.0
    assert all(a["end"] == b["start"] for a, b in itertools.pairwise(timing))
    speech = client.get(f"/v1/jobs/{job['id']}/result")
    assert soundfile.info(io.BytesIO(speech.content)).duration == pytest.approx(timing[-1]["end"])
    again = finished(client, submit(client, kind="speech", input=". ".join(sentences) + "."))
    assert again["metrics"]["reused"] == 1.0
    assert client.get(f"/v1/jobs/{again['id']}/timing").json() == timing


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"kind": "dance"}, 400, "kind"),
        ({}, 400, "file"),
        ({"kind": "speech"}, 400, "input"),
        ({"kind": "speech", "input": "x" * 100_001}, 400, "input"),
        ({"kind": "speech", "input": "x", "speed": "fast"}, 400, "speed"),
        ({"kind": "speech", "input": "x" * 2_000_000}, 413, "input"),
    ],
)
def test_a_malformed_request_is_refused(
    client: httpx2.Client, fields: dict[str, str], status: int, param: str
) -> None:
    answer = client.post("/v1/jobs", files={"unused": ("b", b"")}, data=fields)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param


def test_a_transcript_has_no_timing(client: httpx2.Client) -> None:
    job = finished(client, submit(client, recording(5)))
    assert client.get(f"/v1/jobs/{job['id']}/timing").status_code == 400
