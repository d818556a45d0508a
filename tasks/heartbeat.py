"""The thread that says "alive" while the model computes. It never touches MLX."""

from __future__ import annotations

import threading

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db import queries
from tasks.runner import Runner

log = structlog.get_logger()


class Heartbeat(threading.Thread):
    """Renews the worker's row and the lease of the job in hand until it is stopped."""

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
        with self._runner.services.database.writing() as connection:
            queries.beat(connection, self._runner.worker_id, now())
        if attempt := self._runner.current:
            attempt.renew()

    def stop(self) -> None:
        self._stopped.set()
        self.join()
