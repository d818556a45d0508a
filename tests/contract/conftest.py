from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from app.db.engine import Database
from app.db.migration import migrate
from app.settings import Settings
from tests import places
from tests.harness import PLUGINS, ROOT, Service, eventually, fake_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    """One service for all of the suite, with the fake model as both kinds."""
    data = tmp_path_factory.mktemp("data")
    models = ("--stt-model", str(model), "--tts-model", str(model))
    service = Service(data, *models, VOXQUEUE_AUDIO_REQUEST_TIMEOUT_SECONDS="60")
    yield service
    assert service.stop() == 0


@pytest.fixture
def client(service: Service) -> httpx2.Client:
    return service.client


@pytest.fixture
def hold(model: Path) -> Iterator[Path]:
    """While this file is there, the model does not come to an end."""
    file = model / "hold"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


class FrontDoor:
    """``python -m app.api.server`` alone, with settings of the test's own."""

    def __init__(self, settings: Settings) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.set_inheritable(True)
            descriptor = listener.fileno()
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.api.server", "--fd", str(descriptor)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(PLUGINS), **settings.to_env()},
                pass_fds=(descriptor,),
            )
        self.client = httpx2.Client(base_url=self.url, timeout=120)
        eventually(lambda: self.client.get("/health").status_code == 200)

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        assert self.process.wait(30) in (0, -signal.SIGTERM)  # uvicorn ends by the signal itself


@pytest.fixture(scope="session")
def front_door(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., FrontDoor]]:
    """Makes front doors; each has a database of its own unless ``data_dir`` says whose."""
    doors: list[FrontDoor] = []

    def make(**changes: object) -> FrontDoor:
        changes = {
            "data_dir": (data := changes.get("data_dir") or tmp_path_factory.mktemp("door")),
            **places.settings(Path(str(data))),
            "broker_url": places.broker_url(service.data),
            **changes,
        }
        settings = Settings().with_changes(**changes)
        database = Database(settings.resolved_database_url)
        migrate(database)
        database.close()
        doors.append(FrontDoor(settings))
        return doors[-1]

    yield make
    for door in doors:
        door.stop()
