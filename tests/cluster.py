"""Front doors, workers and a broker as single real processes, each started and hurt by itself."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import redis
import soundfile
from sqlalchemy import select

from app.broker import redis_url
from app.db import queries
from app.db.engine import Database
from app.db.migration import migrate
from app.db.records import Job
from app.db.tables import shares, windows
from app.embedded import EmbeddedValkey
from app.settings import Settings
from app.storage import open_store
from tests import places
from tests.engines import free_port
from tests.harness import PLUGINS, ROOT, eventually

FOLDERS = ("in/", "out/", "parts/")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
START_SECONDS = 120.0  # for a process on a machine that is busy with other things
# Death is noticed within a second or two, so that tests need not wait for it.
QUICK = {
    "heartbeat_seconds": 0.25,
    "lease_seconds": 4.0,
    "worker_stale_seconds": 3.0,
    "sweep_seconds": 0.25,
    "resend_seconds": 1.0,
    "window_batch": 1,
}


def recording(seconds: float = 1.0, *, pitch: float = 0.1, rate: int = 16_000) -> bytes:
    """A tone as FLAC; another pitch is another recording."""
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(rate * seconds)) * pitch)
    soundfile.write(file, tone, rate, format="FLAC")
    return file.getvalue()


def quiet_hour() -> bytes:
    """An hour of silence; small, and for the fake model as good as any other recording."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3600 * 8000), 8000, format="FLAC")
    return file.getvalue()


@dataclass
class Process:
    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                return self.popen.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode


@dataclass
class Cluster:
    data: Path
    model: Path
    changes: dict[str, Any] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    fronts: list[Front] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.valkey = EmbeddedValkey(self.data / "valkey")
        self.settings = Settings(
            **{
                "data_dir": self.data,
                **places.settings(self.data),
                "broker_url": self.valkey.url,  # its own also beside servers, since tests end it
                "stt_model": str(self.model),
                "tts_model": str(self.model),
                **QUICK,
                **self.changes,
            }
        )
        self.database = Database(self.settings.resolved_database_url)
        self.store = open_store(self.settings.storage_url, self.settings.storage_dir)
        migrate(self.database)
        self.broker = self.start_broker()

    def _start(self, name: str, command: list[str], **env: str) -> Process:
        log = self.data / f"{name}-{len(self.processes)}.log"
        with log.open("w") as out:
            popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(PLUGINS), **self.settings.to_env(), **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def start_broker(self) -> Process:
        self.broker = self._start("valkey", self.valkey.command())
        eventually(self._broker_answers, seconds=START_SECONDS)
        return self.broker

    def _broker_answers(self) -> bool:
        url = redis_url(self.valkey.url)
        with suppress(redis.RedisError), redis.Redis.from_url(url) as client:
            return bool(client.ping())
        return False

    def empty_broker(self) -> None:
        """The broker dies, and what it kept with it."""
        self.broker.kill()
        shutil.rmtree(self.data / "valkey")

    def launch_worker(self, **env: str) -> Process:
        return self._start("worker", [sys.executable, "-m", "tasks.worker"], **env)

    def start_worker(self, **env: str) -> Process:
        """A worker once it has loaded its model."""
        before = self.workers()
        worker = self.launch_worker(**env)

        def up() -> bool:
            if worker.popen.poll() is not None:
                raise AssertionError(worker.text)
            return any(
                item.pid == worker.popen.pid for item in self.workers() if item not in before
            )

        eventually(up, seconds=START_SECONDS)
        return worker

    def workers(self) -> list[Any]:
        with self.database.reading() as connection:
            return queries.known_workers(connection, _LONG_AGO)

    def launch_front(self, port: int) -> Front:
        command = [sys.executable, "-m", "app.api.server"]
        front = Front(self._start("front", command, VOXQUEUE_PORT=str(port)), port)
        self.fronts.append(front)
        return front

    def start_front(self) -> Front:
        """A front door once it answers."""
        front = self.launch_front(free_port())
        eventually(front.answers, seconds=START_SECONDS)
        return front

    def job(self, job_id: str) -> Job:
        with self.database.reading() as connection:
            job = queries.get_job(connection, job_id)
        assert job is not None
        return job

    def wait(self, job_id: str, seconds: float = 120.0) -> Job:
        """The job once it is in a final state."""
        eventually(lambda: self.job(job_id).state.final, seconds=seconds)
        return self.job(job_id)

    def windows(self, job_id: str) -> list[tuple[int, int]]:
        """Number and attempt of each finished window that was kept."""
        query = select(windows.c.number, windows.c.attempt).where(windows.c.job_id == job_id)
        with self.database.reading() as connection:
            return [tuple(row) for row in connection.execute(query.order_by(windows.c.number))]

    def shares(self, job_id: str) -> dict[int, str]:
        """The worker that took each share of the job's last attempt."""
        query = select(shares.c.number, shares.c.worker).where(
            shares.c.job_id == job_id, shares.c.attempt == self.job(job_id).attempt
        )
        with self.database.reading() as connection:
            return dict(tuple(row) for row in connection.execute(query))

    def blobs(self) -> list[str]:
        return sorted(blob.key for folder in FOLDERS for blob in self.store.list(folder))

    def stop_workers(self) -> None:
        for process in self.processes:
            if process.name == "worker" and process.popen.poll() is None:
                process.stop()

    def stop(self) -> None:
        for front in self.fronts:
            front.client.close()
        for process in reversed(self.processes):
            process.stop()
        self.database.close()


class Front:
    """A front door and a client of it."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx2.Client(base_url=self.url, timeout=60)

    def answers(self) -> bool:
        if self.process.popen.poll() is not None:
            raise AssertionError(self.process.text)
        try:
            return self.client.get("/health").status_code == 200
        except httpx2.TransportError:
            return False

    def say(self, text: str, *, prefer: str = "respond-async", **headers: str) -> httpx2.Response:
        body = {"model": "m", "input": text}
        sent = {"Prefer": prefer, **headers}
        return self.client.post("/v1/audio/speech", json=body, headers=sent)

    def hear(
        self, audio: bytes, *, prefer: str = "respond-async", data: Any = None, **headers: str
    ) -> httpx2.Response:
        files = {"file": ("a.flac", audio)}
        sent = {"Prefer": prefer, **headers}
        return self.client.post(
            "/v1/audio/transcriptions", files=files, data=data or {}, headers=sent
        )


def job_id(answer: httpx2.Response) -> str:
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


@contextmanager
def holding(model: Path) -> Iterator[None]:
    """Every call of the fake model lasts until the end of the block."""
    hold = model / "hold"
    hold.touch()
    try:
        yield
    finally:
        hold.unlink(missing_ok=True)


@contextmanager
def cluster(data: Path, model: Path, **changes: Any) -> Iterator[Cluster]:
    made = Cluster(data, model, changes)
    try:
        yield made
    finally:
        made.stop()
