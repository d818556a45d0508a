"""A book in one job: it lets callers in, outlives its worker and sounds as if nothing had been."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.states import JobState
from tests.cluster import Cluster, Front, cluster, job_id
from tests.harness import calls, eventually, fake_model

GROUP = 4  # sentences said in one model call, by the fake model's plan
SENTENCES = 40


def book(name: str) -> str:
    return " ".join(f"Sentence {n} of the book {name}." for n in range(SENTENCES))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    model = fake_model(tmp_path_factory.mktemp("model") / "fake", seconds=0.05)
    with cluster(tmp_path_factory.mktemp("data"), model) as made:
        made.start_worker()
        made.start_front()
        yield made


@pytest.fixture
def front(house: Cluster) -> Front:
    return house.fronts[0]


def batch(front: Front, text: str) -> str:
    """The job of a batch of one line."""
    line = {
        "custom_id": "book",
        "method": "POST",
        "url": "/v1/audio/speech",
        "body": {"model": "m", "input": text, "voice": "af_heart"},
    }
    file = front.client.post(
        "/v1/files",
        files={"file": ("b.jsonl", json.dumps(line).encode())},
        data={"purpose": "batch"},
    ).json()
    made = front.client.post(
        "/v1/batches",
        json={
            "input_file_id": file["id"],
            "endpoint": "/v1/audio/speech",
            "completion_window": "24h",
        },
    ).json()
    found: list[Any] = []

    def begun() -> bool:
        found[:] = front.client.get("/v1/jobs", params={"batch": made["id"]}).json()["data"]
        return bool(found)

    eventually(begun)
    return str(found[0]["id"])


def result(front: Front, job: str) -> tuple[bytes, Any]:
    wav = front.client.get(f"/v1/jobs/{job}/result")
    assert wav.status_code == 200, wav.text
    return wav.content, front.client.get(f"/v1/jobs/{job}/timing").json()


def said(house: Cluster, text: str) -> list[str]:
    return [call for call in calls(house.model) if text in call]


def test_it_lets_a_caller_in_outlives_its_worker_and_is_the_same(
    house: Cluster, front: Front
) -> None:
    job = batch(front, book("A"))
    eventually(lambda: said(house, "book A"))
    before = len(said(house, "book A"))
    answer = front.say("I cannot wait", prefer="wait=60")
    assert answer.status_code == 200, answer.text
    # The group that was being said, and one more if that ended just then.
    assert len(said(house, "book A")) - before <= 2 * GROUP
    assert not house.job(job).state.final

    eventually(lambda: len(house.windows(job)) >= 4)
    next(process for process in house.processes if process.name == "worker").kill()
    kept = len(house.windows(job)) * GROUP
    house.start_worker()
    done = house.wait(job)
    assert (done.state, done.losses) == (JobState.SUCCEEDED, 0)
    assert done.attempt >= 3
    told = said(house, "book A")
    assert len(set(told)) == SENTENCES
    # No more than what was in hand when the worker died is said again.
    assert len(told) <= SENTENCES + GROUP
    assert told[:kept] == list(dict.fromkeys(told))[:kept]
    whole = [f"out/{job}/{done.attempt}/{name}" for name in ("speech.wav", "timing.json")]
    # What was kept on the way goes right after the row says that the speech is there.
    eventually(lambda: [blob for blob in house.blobs() if job in blob] == whole)

    again = front.client.post(
        "/v1/jobs",
        files={
            name: (None, value)
            for name, value in {
                "kind": "speech",
                "input": book("A"),
                "voice": "af_heart",
                "force": "true",
            }.items()
        },
    )
    undisturbed = house.wait(job_id(again))
    assert (undisturbed.state, undisturbed.attempt) == (JobState.SUCCEEDED, 1)
    (wav, timing), (wanted, wanted_timing) = result(front, job), result(front, undisturbed.id)
    assert wav == wanted
    assert timing == wanted_timing
    assert [span["text"] for span in timing] == [
        f"Sentence {n} of the book A" for n in range(SENTENCES)
    ]
    assert all(a["end"] == b["start"] for a, b in itertools.pairwise(timing))


@pytest.mark.weights
def test_real_speech_goes_on_after_a_death(real_models: None, tmp_path: Path) -> None:
    """Sentences that are too long to share an utterance, said quickly to save time."""
    text = " ".join(
        f"In chapter {n} we hear at some length how the old captain, who had never been afraid "
        "of any storm, came to fear the sound of his own name being called across the water, "
        f"and why he never told it to the other {n + 2} men aboard."
        for n in range(GROUP + 1)
    )
    form = {"kind": "speech", "input": text, "speed": "4.0", "force": "true"}
    changes = {"stt_model": "", "tts_model": "kokoro-82m", "lease_seconds": 8.0}
    with cluster(tmp_path, tmp_path / "none", **changes) as house:
        worker = house.start_worker()
        front = house.start_front()
        files = {name: (None, value) for name, value in form.items()}
        job = job_id(front.client.post("/v1/jobs", files=files))
        eventually(lambda: house.windows(job), seconds=300)
        worker.kill()
        house.start_worker()
        done = house.wait(job, 300)
        assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)
        assert {attempt for _, attempt in house.windows(job)} == {1}
        undisturbed = job_id(front.client.post("/v1/jobs", files=files))
        assert house.wait(undisturbed, 300).attempt == 1
        assert result(front, job) == result(front, undisturbed)
