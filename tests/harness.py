"""Real processes for tests: a service started, watched, hurt and stopped from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from tests import places

ROOT = Path(__file__).parent.parent
PLUGINS = ROOT / "tests" / "plugins"
READY_SECONDS = 90.0


def fake_model(directory: Path, **config: object) -> Path:
    """A checkpoint of the fake model; its calls.log tells what it was asked to do."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"model_type": "fake", **config}))
    return directory


def calls(model: Path) -> list[str]:
    log = model / "calls.log"
    return log.read_text().splitlines() if log.exists() else []


def eventually(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Look until the condition holds; the state is what is waited for, not the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {condition}")
        time.sleep(0.05)


class Service:
    """``voxqueue serve`` on a free port of the loopback interface."""

    def __init__(self, data: Path, *options: str, **env: str) -> None:
        self.data = data
        data.mkdir(parents=True, exist_ok=True)
        self._log = (data / "serve.log").open("w+")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "app.cli", "serve", "--port", "0"),
                *("--data-dir", str(data), *options),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(PLUGINS), **places.env(data), **env},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.url = self._wait_for_address()
        self.client = httpx2.Client(base_url=self.url, timeout=120)

    @property
    def log(self) -> str:
        return (self.data / "serve.log").read_text()

    def _wait_for_address(self) -> str:
        found: list[str] = []

        def announced() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"serve ended with {self.process.returncode}:\n{self.log}")
            found.extend(re.findall(r"ready at (http://\S+?)\. Try", self.log))
            return bool(found)

        try:
            eventually(announced, seconds=READY_SECONDS)
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}\n{self.log}") from None
        return found[0]

    def pids(self, child: str) -> list[int]:
        """Every pid that a child has had, the latest last."""
        events = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [
            event["pid"]
            for event in events
            if event.get("event") == "child_started" and event["child"].startswith(child)
        ]

    def kill(self, child: str, number: signal.Signals = signal.SIGKILL) -> int:
        pid = self.pids(child)[-1]
        os.kill(pid, number)
        return pid

    def ready(self) -> bool:
        try:
            return self.client.get("/ready").status_code == 200
        except httpx2.TransportError:
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self._log.close()
        return status


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
