"""The thread that says "alive" while the model computes. It never touches MLX."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db import queries
from app.jobs.errors import STUCK
from tasks.attempt import Attempt
from tasks.runner import Runner

log = structlog.get_logger()


class Heartbeat(threading.Thread):
    """Renews the worker's row and the lease of the job in hand until it is stopped.

    An attempt that does not get on is given away, and the process with it: nothing else ends a
    call that hangs in native code.
    """

    def __init__(self, runner: Runner) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._runner = runner
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._runner.services.settings.heartbeat_seconds):
            try:
                self.beat()
            except SQLAlchemyError as error:
                log.warning("heartbeat_failed", error=str(error))  # the database may come back

    def beat(self) -> None:
        attempt = self._runner.current
        if attempt and attempt.still_seconds > self._runner.services.settings.stuck_seconds:
            self._end_stuck(attempt)
            return
        with self._runner.services.database.writing() as connection:
            worker = replace(
                self._runner.worker, seen_at=now(), audio_counts=self._runner.audio_counts()
            )
            if not queries.beat(connection, worker):
                queries.put_worker(connection, worker)
        if attempt:
            attempt.renew()

    def _end_stuck(self, attempt: Attempt) -> None:
        log.error("worker_stuck", job_id=attempt.job.id, seconds=attempt.still_seconds)
        attempt.give_away(STUCK)
        os.kill(os.getpid(), signal.SIGKILL)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
