"""What an operator relies on: Flower, and workers that replace themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest

from tests import engines, places
from tests.harness import ROOT, Service, eventually, fake_model

USER = ("watcher", "s3cret")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Each call of its model takes long; each job is more memory than its workers may have."""
    model = fake_model(tmp_path_factory.mktemp("model") / "fake", seconds=6.0)
    service = Service(
        tmp_path_factory.mktemp("data"),
        *("--stt-model", "", "--tts-model", str(model)),
        VOXQUEUE_HEARTBEAT_SECONDS="0.5",
        VOXQUEUE_WORKER_MAX_MEMORY_BYTES="1",
    )
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def flower(slow: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    port = engines.free_port()
    client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", auth=USER, timeout=20)

    def answers() -> bool:
        try:
            return client.get("/healthcheck").status_code == 200
        except httpx2.TransportError:
            return False

    env = {
        **places.env(slow.data),
        "VOXQUEUE_BROKER_URL": places.broker_url(slow.data),
        "FLOWER_BASIC_AUTH": ":".join(USER),
        "FLOWER_PORT": str(port),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    log = tmp_path_factory.mktemp("flower") / "log"
    command = [sys.executable, "-m", "app.cli", "flower"]
    with engines.environment(env), engines.process(command, log, answers, stop=signal.SIGKILL):
        yield client
    client.close()


def test_flower_asks_for_a_password(flower: httpx2.Client) -> None:
    assert httpx2.get(f"{flower.base_url}/workers").status_code == 401


def test_a_busy_worker_is_online_and_a_worn_one_is_replaced(
    slow: Service, flower: httpx2.Client
) -> None:
    accepted = slow.client.post(
        "/v1/audio/speech",
        json={"model": "m", "input": "Slow."},
        headers={"Prefer": "respond-async"},
    )
    job = accepted.headers["location"]

    def status() -> str:
        return slow.client.get(job).json()["status"]

    def online() -> list[bool]:
        workers = flower.get("/workers", params={"json": 1}).json()["data"]
        return [worker["status"] for worker in workers]

    eventually(lambda: status() == "running")
    eventually(lambda: online() == [True])
    assert status() == "running"
    eventually(lambda: status() == "succeeded")
    eventually(lambda: len(slow.pids("worker")) == 2)
    assert '"status": 75, "delay": 0.0' in slow.log
    eventually(slow.ready)


def test_flower_is_not_opened_to_the_world_without_a_password() -> None:
    env = {
        **os.environ,
        "VOXQUEUE_BROKER_URL": "redis://127.0.0.1:1/0",
        "FLOWER_ADDRESS": "0.0.0.0",
        "FLOWER_BASIC_AUTH": "",
    }
    command = [sys.executable, "-m", "app.flower"]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "is public: set FLOWER_BASIC_AUTH" in ended.stderr
