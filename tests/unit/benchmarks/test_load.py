"""What other processes have of the machine, by what the system counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from benchmarks import load


class Times(NamedTuple):
    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    guest: float


class Machine:
    """Two cores: seconds of work by anybody, and by this process and its one child."""

    def __init__(self):
        self.clock, self.busy, self.stolen, self.own, self.child = 10.0, 0.0, 0.0, 0.0, 0.0

    def times(self):
        idle = 2 * self.clock - self.busy - self.stolen
        # a guest's time is in the user's too
        return Times(self.busy, 0.0, idle, 0.0, self.stolen, self.busy / 2)

    def process(self):
        child = SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=self.child, system=0.0))
        return SimpleNamespace(
            cpu_times=lambda: SimpleNamespace(user=self.own / 2, system=self.own / 2),
            children=lambda recursive: [child],
        )


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(psutil, "cpu_times", machine.times)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(psutil, "Process", machine.process)
    monkeypatch.setattr(load.time, "perf_counter", lambda: machine.clock)
    return machine


def test_what_this_process_and_its_children_do_is_not_others(machine):
    others = load.Others()
    machine.clock += 1
    machine.busy, machine.own, machine.child = 2.0, 0.5, 1.5
    assert others.share() == 0.0


def test_the_rest_is_and_what_the_host_takes(machine):
    others = load.Others()
    machine.clock += 1
    machine.busy, machine.child, machine.stolen = 1.0, 0.5, 0.5
    assert others.share() == pytest.approx(0.5)
