"""The thread that sends Celery's heartbeat events, so that Flower shows a busy worker as online.

A solo worker sends none while a task runs. The service itself never reads them: a worker's row and
its leases are what counts (tasks/heartbeat.py), so a broker that is away does not matter here.
"""

from __future__ import annotations

import threading

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import RedisError

log = structlog.get_logger()


class Pulse(threading.Thread):
    def __init__(self, celery: Celery, hostname: str, *, seconds: float) -> None:
        super().__init__(name="pulse", daemon=True)
        self._celery, self._hostname, self._seconds = celery, hostname, seconds
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._send_until_stopped()
            except (OperationalError, RedisError, OSError) as error:
                log.debug("pulse_failed", error=str(error))
                self._stopped.wait(self._seconds)

    def _send_until_stopped(self) -> None:
        with (
            self._celery.connection_for_write() as connection,
            self._celery.events.Dispatcher(connection, hostname=self._hostname) as dispatcher,
        ):
            while not self._stopped.wait(self._seconds):
                dispatcher.send("worker-heartbeat", freq=self._seconds)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
