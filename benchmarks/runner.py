"""Runners: long-lived processes that answer a request a line, each in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True)
class System:
    name: str
    python: Path
    script: str
    arguments: tuple[str, ...] = ()


class Runner:
    """A started system; the first answer pays for loading and is thrown away by the caller."""

    def __init__(self, system: System) -> None:
        self.name = system.name
        self._process = subprocess.Popen(
            [str(system.python), str(PEERS / system.script), *system.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        )
        self._read()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise RuntimeError(f"{self.name} has no standard input")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        if self._process.stdout is None or not (line := self._process.stdout.readline()):
            raise RuntimeError(f"{self.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def peak_megabytes(self) -> float:
        """The largest resident size so far (Linux)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()
