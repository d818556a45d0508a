from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.supervisor import Child, Supervisor
from tests.harness import alive

SLEEP = "import time; time.sleep(60)"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """The supervisor takes over signal handlers; give them back."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    old = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, old, strict=True):
        signal.signal(number, handler)


def stop_when(supervisor: Supervisor, condition: Callable[[], bool]) -> Callable[[], None]:
    def step() -> None:
        if condition():
            supervisor.request_stop()

    return step


def test_a_dead_child_is_reported_and_started_again() -> None:
    dead: list[int] = []
    child = Child(name="c", command=python("raise SystemExit(3)"), on_death=dead.append)
    supervisor = Supervisor([child])
    supervisor.run(stop_when(supervisor, lambda: len(dead) == 2))
    assert len(set(dead)) == 2
    assert child.failures == 2


def test_delays_grow_to_a_bound() -> None:
    child = Child(name="c", command=[])
    delays = []
    for failures in (1, 2, 3, 20, 5000):
        child.failures = failures
        delays.append(child.delay)
    assert delays == [0.5, 1.0, 2.0, 30.0, 30.0]


def test_children_stop_in_reverse_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import signal, sys, time\n"
        "def stop(*_):\n"
        f"    open({str(log)!r}, 'a').write(sys.argv[1] + ' '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"open({str(tmp_path)!r} + '/' + sys.argv[1], 'w').close()\n"
        "time.sleep(60)\n"
    )
    children = [Child(name=name, command=[*python(code), name]) for name in ("a", "b", "c")]
    supervisor = Supervisor(children)
    supervisor.run(stop_when(supervisor, lambda: all((tmp_path / name).exists() for name in "abc")))
    assert log.read_text() == "c b a "


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(ready)!r}, 'w').close()\n" + SLEEP
    )
    child = Child(name="c", command=python(code), grace_seconds=0.2)
    supervisor = Supervisor([child])
    supervisor.run(stop_when(supervisor, ready.exists))
    assert child.process is not None
    assert child.process.returncode == -signal.SIGKILL


def test_children_have_the_lifeline_and_their_environment(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, time\n"
        "number = int(os.environ['VOXQUEUE_LIFELINE']); os.fstat(number)\n"
        f"open({str(out)!r}, 'w').write(os.environ['MINE'])\n" + SLEEP
    )
    child = Child(name="c", command=python(code), env={"MINE": "yes"})
    supervisor = Supervisor([child])
    supervisor.run(stop_when(supervisor, lambda: out.exists() and out.read_text() == "yes"))
    assert child.process is not None
    assert not alive(child.process.pid)


def test_sigterm_ends_the_loop() -> None:
    supervisor = Supervisor([])
    supervisor.run(lambda: os.kill(os.getpid(), signal.SIGTERM))


def test_a_child_that_asks_for_it_is_started_anew_at_once() -> None:
    dead: list[int] = []
    child = Child(name="worn", command=python("raise SystemExit(75)"), on_death=dead.append)
    supervisor = Supervisor([child])
    supervisor.run(stop_when(supervisor, lambda: len(dead) == 3))
    assert (child.failures, child.delay) == (0, 0.0)
