from __future__ import annotations

import signal

from tasks.draining import Draining


def test_a_signal_may_come_while_one_is_heard() -> None:
    draining = Draining()
    before = signal.signal(signal.SIGALRM, lambda *_: draining.set())
    signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
    try:
        for _ in range(20_000):  # a threading.Event waits for itself within a few hundred
            draining.set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert draining.is_set()
