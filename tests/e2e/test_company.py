"""Short recordings of a batch, heard several at a time by a real worker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from openai import OpenAI
from voxqueue_fake import POISON

from tests.harness import Service, calls, eventually, fake_model

STT = "/v1/audio/transcriptions"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake", batches=True)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[OpenAI]:
    limits = {"VOXQUEUE_LEASE_SECONDS": "2", "VOXQUEUE_HEARTBEAT_SECONDS": "0.5"}
    limits |= {"VOXQUEUE_SWEEP_SECONDS": "0.3"}
    service = Service(tmp_path_factory.mktemp("data"), "--stt-model", str(model), **limits)
    with OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        yield client
    assert service.stop() == 0


def recording(seed: int, *, first: float = 0.0) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, 16_000 + seed)
    noise[0] = first
    soundfile.write(file, noise, 16_000, format="WAV")
    return file.getvalue()


def run(client: OpenAI, model: Path, recordings: list[bytes]) -> dict[str, Any]:
    """The batch's answers by line; all but the first wait while that one is heard."""
    hold = model / "hold"
    hold.touch()
    files = [client.files.create(file=("a.wav", data), purpose="user_data") for data in recordings]
    lines = [
        {"custom_id": str(i), "method": "POST", "url": STT, "body": {"model": "m", "file": f.id}}
        for i, f in enumerate(files)
    ]
    text = "\n".join(json.dumps(line) for line in lines).encode()
    sent = client.files.create(file=("b.jsonl", text), purpose="batch")
    batch = client.batches.create(input_file_id=sent.id, endpoint=STT, completion_window="24h")
    eventually(lambda: calls(model))
    eventually(lambda: client.get("/jobs?state=queued", cast_to=dict)["data"])
    hold.unlink()
    eventually(lambda: client.batches.retrieve(batch.id).completed_at, seconds=90)
    done = client.batches.retrieve(batch.id)
    ids = [name for name in (done.output_file_id, done.error_file_id) if name]
    read = [json.loads(line) for i in ids for line in client.files.content(i).text.splitlines()]
    return {line["custom_id"]: line for line in read}


def test_a_poisonous_one_takes_no_other_with_it(client: OpenAI, model: Path) -> None:
    recordings = [recording(seed, first=POISON if seed == 3 else 0.0) for seed in range(6)]
    found = run(client, model, recordings)
    assert sorted(found) == [str(i) for i in range(6)]
    assert found.pop("3")["response"]["body"]["error"]["code"] == "worker_lost"
    texts = {line["response"]["body"]["text"] for line in found.values()}
    assert len(texts) == 5
    assert any(line.startswith("together") for line in calls(model))
