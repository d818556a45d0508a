"""Minutes of real speech, and a real model: its worker dies in the middle, or another one helps."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from app.states import JobState
from models.base import ModelError
from models.catalog import checkpoint_path
from tests.cluster import Cluster, cluster, job_id
from tests.harness import ROOT, eventually

MODEL = "whisper-tiny.en"


@pytest.fixture(autouse=True)
def _weights() -> None:
    try:
        checkpoint_path(MODEL)
    except ModelError as error:
        pytest.skip(str(error))


def spoken(minutes: int) -> bytes:
    """One short recording over and over, each time after another pause: no two windows alike."""
    folder = Path(os.environ.get("VOXQUEUE_TEST_AUDIO", ROOT.parent / "shared" / "audio"))
    if not (folder / "jfk.wav").exists():
        pytest.skip(f"no real speech at {folder}: set VOXQUEUE_TEST_AUDIO")
    once, rate = soundfile.read(folder / "jfk.wav", dtype="float32")
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < minutes * 60 * rate:
        parts += [once, np.zeros(int(rate * (0.5 + 0.1 * (len(parts) % 7))), np.float32)]
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(parts)[: minutes * 60 * rate], rate, format="FLAC")
    return file.getvalue()


def result(house: Cluster, job: str) -> str:
    answer = house.fronts[-1].client.get(f"/v1/jobs/{job}/result", params={"format": "text"})
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.weights
def test_a_second_worker_does_only_the_rest(tmp_path: Path) -> None:
    speech = spoken(minutes=10)
    changes = {"stt_model": MODEL, "tts_model": "", "window_batch": 2, "lease_seconds": 15.0}
    with cluster(tmp_path, tmp_path / "none", **changes) as house:
        worker = house.start_worker()
        front = house.start_front()
        job = job_id(front.hear(speech))
        eventually(lambda: house.job(job).progress >= 0.4, seconds=500)
        worker.kill()
        kept = {number for number, _ in house.windows(job)}
        worker = house.start_worker()
        done = house.wait(job, 500)
        assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)
        by_attempt = {1: set(), 2: set()}
        for number, attempt in house.windows(job):
            by_attempt[attempt].add(number)
        assert by_attempt[1] == kept
        assert min(by_attempt[2]) == max(kept) + 1
        undisturbed = job_id(front.hear(speech))
        assert house.wait(undisturbed, 500).attempt == 1
        assert result(house, job) == result(house, undisturbed)
        assert result(house, job).lower().count("ask not") >= 20


@pytest.mark.weights
def test_what_two_workers_hear_is_what_one_does(tmp_path: Path) -> None:
    speech = spoken(minutes=5)
    changes = {"stt_model": MODEL, "tts_model": "", "window_batch": 2}
    with cluster(tmp_path, tmp_path / "none", **changes) as house:
        house.start_worker()
        front = house.start_front()
        alone = house.wait(job_id(front.hear(speech)), 500)
        assert house.shares(alone.id) == {}
        house.start_worker()
        shared = house.wait(job_id(front.hear(speech)), 500)
        assert (shared.state, shared.attempt) == (JobState.SUCCEEDED, 1)
        assert len(set(house.shares(shared.id).values())) == 2
        assert shared.output_sha256 == alone.output_sha256
        assert result(house, shared.id).lower().count("ask not") >= 10
