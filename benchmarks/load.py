"""How much of the machine other processes had meanwhile: a disturbed figure is no figure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import psutil

QUIET = 0.1  # of the machine, at most: more of it, and a round is not counted


class Others:
    """From its making on: what ran that is neither this process nor a child of it."""

    def __init__(self) -> None:
        self._started, self._others = time.perf_counter(), _others()

    def share(self) -> float:
        passed = (time.perf_counter() - self._started) * (psutil.cpu_count() or 1)
        return max(0.0, (_others() - self._others) / passed)


def _others() -> float:
    """Seconds of all cores, with those that a host of virtual machines takes away."""
    times = psutil.cpu_times()
    twice_or_idle = ("idle", "iowait", "guest", "guest_nice")
    busy: float = sum(times) - sum(getattr(times, name, 0.0) for name in twice_or_idle)
    return busy - sum(_own())


def _own() -> Iterator[float]:
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            yield times.user + times.system
