"""A small process supervisor: start in order, restart with backoff, stop in reverse, no orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from app.orphan import LIFELINE

POLL_SECONDS = 0.1
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
STEADY_SECONDS = 60.0  # a child that ran for so long starts again without delay
RESTART_STATUS = 75  # a child that ends with it (EX_TEMPFAIL) asks to be started anew at once
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Child:
    name: str
    command: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    grace_seconds: float = 30.0
    """Time to end by itself after SIGTERM before it is killed."""
    on_death: Callable[[int], None] = lambda _pid: None
    """Told the pid of a process that ended by itself."""
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    start_at: float = 0.0

    @property
    def delay(self) -> float:
        doublings = min(self.failures - 1, 10)  # far beyond the longest delay
        if self.failures == 0:
            return 0.0
        return min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)


class Supervisor:
    def __init__(self, children: Sequence[Child]) -> None:
        self.children = children
        self._stop = False
        self._lifeline, self._held = os.pipe()

    def request_stop(self, *_: object) -> None:
        self._stop = True

    def run(self, each_round: Callable[[], None] = lambda: None) -> None:
        """Keep every child running until SIGTERM or SIGINT; then stop them all."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.request_stop)
        try:
            while not self._stop:
                for child in self.children:
                    self._look_after(child)
                each_round()
                time.sleep(POLL_SECONDS)
        finally:
            self._stop_all()

    def _look_after(self, child: Child) -> None:
        moment = time.monotonic()
        if child.process is None:
            if moment >= child.start_at:
                self._start(child)
        elif (status := child.process.poll()) is not None:
            pid, child.process = child.process.pid, None
            child.failures = 1 if moment - child.started > STEADY_SECONDS else child.failures + 1
            if status == RESTART_STATUS:
                child.failures = 0
            child.start_at = moment + child.delay
            log.warning("child_died", child=child.name, pid=pid, status=status, delay=child.delay)
            child.on_death(pid)

    def _start(self, child: Child) -> None:
        child.started = time.monotonic()
        child.process = subprocess.Popen(
            list(child.command),
            env={**os.environ, **child.env, LIFELINE: str(self._lifeline)},
            stdin=subprocess.DEVNULL,
            pass_fds=(self._lifeline, *child.pass_fds),
            start_new_session=True,  # a Ctrl-C reaches the supervisor only, which stops in order
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - the supervisor has one thread
        )
        log.info("child_started", child=child.name, pid=child.process.pid)

    def _stop_all(self) -> None:
        for child in reversed(self.children):
            if child.process is None or child.process.poll() is not None:
                continue
            child.process.terminate()
            try:
                child.process.wait(child.grace_seconds)
            except subprocess.TimeoutExpired:
                log.warning("child_killed", child=child.name, pid=child.process.pid)
                child.process.kill()
                child.process.wait()
            log.info("child_stopped", child=child.name, status=child.process.returncode)
        os.close(self._held)
        os.close(self._lifeline)


def _die_with_parent() -> None:
    """On Linux the kernel ends the child with its parent, even one that is not ours (Valkey)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
