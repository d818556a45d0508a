"""A service of the command's own, for as long as it runs: ``voxqueue serve`` as a child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.orphan import LIFELINE

READY_SECONDS = 180.0  # for the model to be loaded from a cold disk
STOP_SECONDS = 150.0  # longer than serve gives its worker
POLL_SECONDS = 0.1
LINES_KEPT = 20  # of its log, to tell why it ended
NO_MODEL = "no model could be loaded"  # and trying again changes nothing
_READY = re.compile(r"ready at (http://\S+?)\. Try")


class NotStarted(RuntimeError):
    """The service did not come up: the message has its last words."""


@contextmanager
def own_service(data_dir: Path, *options: str) -> Iterator[str]:
    """Its address, once it is ready. Raises NotStarted."""
    child = _Child(data_dir, options)
    try:
        yield child.address()
    finally:
        child.stop()


class _Child:
    def __init__(self, data_dir: Path, options: tuple[str, ...]) -> None:
        lifeline, self._held = os.pipe()  # it ends with this process, however that ends
        command = [sys.executable, "-m", "app.cli", "serve", "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir.absolute()), *options],
            env={**os.environ, LIFELINE: str(lifeline)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(lifeline,),
            start_new_session=True,  # a Ctrl-C is this process's to handle
        )
        os.close(lifeline)
        self._said: deque[str] = deque(maxlen=LINES_KEPT)
        self._found: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._said.append(line.rstrip())
            if match := _READY.search(line):
                self._found.append(match[1])

    def address(self) -> str:
        deadline = time.monotonic() + READY_SECONDS
        while not self._found:
            hopeless = self._process.poll() is not None or any(NO_MODEL in x for x in self._said)
            if hopeless or time.monotonic() > deadline:
                raise NotStarted("the service did not start: " + self._last_words())
            time.sleep(POLL_SECONDS)
        return self._found[0]

    def _last_words(self) -> str:
        """Of its log, what was no mere information."""
        said = [_message(line) for line in list(self._said)]
        return " / ".join(line for line in said if line) or "it said nothing"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._held)
        self._reader.join(1)
        if self._process.stdout:
            self._process.stdout.close()


def _message(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return line
    told = event.get("error") or event.get("event", "")
    return "" if event.get("level") in ("info", "debug") else str(told)
