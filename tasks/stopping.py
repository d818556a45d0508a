"""How a worker is told to stop: gently by SIGTERM or one Ctrl-C, at once by SIGQUIT or a second.

Celery's own cold stop asks the pool to end the task, which the solo pool cannot do: the exception
surfaces inside the task, which then counts as failed, and its message is gone. Here the job in hand
goes back into the queue instead.
"""

from __future__ import annotations

import signal

from celery import signals
from celery.worker import state

from tasks.attempt import Interrupted
from tasks.runner import Runner

EXIT_STATUS = 0


def install(runner: Runner) -> None:
    """Take over once Celery has installed its own handlers, before the first task."""
    signals.worker_shutting_down.connect(lambda **_: runner.draining.set(), weak=False)
    signals.worker_ready.connect(lambda **_: _take_over(runner), weak=False)


def begin_anew(runner: Runner) -> None:
    """End after the job in hand, with the status that asks the supervisor for a new worker."""
    runner.draining.set()
    runner.worn_out = True
    setattr(state, "should_stop", EXIT_STATUS)  # noqa: B010 - as below


def _take_over(runner: Runner) -> None:
    def drain(*_: object) -> None:
        """The job in hand is handed back at its next checkpoint."""
        runner.draining.set()
        setattr(state, "should_stop", EXIT_STATUS)  # noqa: B010 - typed as None; Celery's loop ends on seeing it

    def stop_at_once(*_: object) -> None:
        """The job in hand is handed back as soon as native code returns."""
        drain()
        if runner.current:
            raise Interrupted

    def on_interrupt(*_: object) -> None:
        stop_at_once() if runner.draining.is_set() else drain()

    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, on_interrupt)
    signal.signal(signal.SIGQUIT, stop_at_once)
