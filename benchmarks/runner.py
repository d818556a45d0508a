"""Systems as processes in environments of their own: a request a line, an answer a line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"
WORK = ROOT / "data" / "benchmarks"
"""Where recordings and the peers' weights are made, once."""

Message = dict[str, Any]


class Asked(Protocol):
    """A started system; its first answer pays for what is not warm yet."""

    versions: dict[str, str]

    def ask(self, request: Message) -> Message:
        """``{"file": …}`` or ``{"text": …, "phonemes": …}``; the answer has ``seconds``."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class System(Protocol):
    @property
    def name(self) -> str: ...

    def start(self) -> Asked: ...


@dataclass(frozen=True, slots=True)
class Program:
    """A system that is a script in benchmarks/peers."""

    name: str
    python: Path
    script: str
    arguments: tuple[str, ...] = ()

    def start(self) -> Runner:
        return Runner(self)


class Runner:
    def __init__(self, program: Program) -> None:
        self._name = program.name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [str(program.python), str(PEERS / program.script), *program.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.versions: dict[str, str] = self._read()["versions"]

    def ask(self, request: Message) -> Message:
        if self._process.stdin is None:
            raise RuntimeError(f"{self._name} has no standard input")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Message:
        if self._process.stdout is None or not (line := self._process.stdout.readline()):
            status = self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self._name} ended with status {status}:\n{self._errors.read()}")
        answer: Message = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # closes its input, which ends it, and waits
        self._errors.close()
