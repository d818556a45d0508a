"""One attempt at a job: its fence, its checkpoints, and the reasons to stop between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError

from app import telemetry
from app.clock import now
from app.db import queries
from app.db.records import Job, WindowRow, Worker
from app.jobs import lifecycle
from app.jobs.errors import Loss
from app.jobs.lifecycle import lease_end
from app.jobs.services import Services
from app.states import Capability, JobState, Lane
from tasks.draining import Draining

RETRY_SECONDS = 0.5  # s between two tries of a database that is away or locked
ASK_SECONDS = 1.0  # s between two looks, from within one step, for a reason to stop

Result = TypeVar("Result")


class Stop(Exception):
    """The attempt ends here without a result."""


class Cancelled(Stop):
    """Somebody asked for the job to be cancelled."""


class HandBack(Stop):
    """The job goes back into the queue: the worker drains, or a waiting caller comes first."""


class LeaseLost(Stop):
    """The job belongs to another attempt by now, or is gone."""


class Interrupted(BaseException):
    """The worker is to stop at once, wherever it is: raised by a signal, caught by the runner."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    services: Services
    job: Job
    """As of the claim or the last checkpoint."""
    capabilities: tuple[Capability, ...]
    """Of this worker: callers waiting for them come before a job that nobody waits for."""
    draining: Draining
    metrics: dict[str, float] = field(default_factory=dict)
    """Seconds by stage, kept with the job."""
    leftovers: str = ""
    """The folder of blobs that nobody needs once the job has succeeded; empty: there are none."""
    heard: dict[int, WindowRow] = field(default_factory=dict)
    """Windows from a model call that this attempt had with others, by number."""
    heard_seconds: float = 0.0
    """Its share of that call."""
    company: tuple[Attempt, ...] = ()
    """Further attempts in this worker's hands, whose leases are renewed with this one's."""
    stepped: float = field(default_factory=time.monotonic)
    """When the work was last seen to go on."""
    _stopped: bool = False

    @property
    def number(self) -> int:
        return self.job.attempt

    @property
    def worker(self) -> str:
        """Whose attempt this is."""
        return self.job.worker or ""

    @property
    def still_seconds(self) -> float:
        return time.monotonic() - self.stepped

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of the work: its seconds are kept with the job and told to a trace."""
        started, key = time.perf_counter(), f"{name}_seconds"
        try:
            with telemetry.span(name):
                yield
        finally:
            self.metrics[key] = self.metrics.get(key, 0.0) + time.perf_counter() - started

    def renew(self) -> bool:
        """Hold the job for another lease; False when it has been lost."""
        for other in self.company:
            other.renew()
        with self.services.database.writing() as connection:
            return queries.renew_lease(connection, self.job, lease_until=lease_end(self.services))

    def give_away(self, loss: Loss) -> None:
        """Let another worker have what is in hand; from any thread."""
        for other in self.company:
            other.give_away(loss)
        lifecycle.lose(self.services, self.job, loss)

    def checkpoint(self, progress: float, finished: Sequence[WindowRow] = ()) -> None:
        """Between two steps of the work: report, keep what is finished, stop if there is a reason.

        Raises Stop. Only a job that has got on makes room for others, or it never would.
        """
        job = self.patiently(lambda: self._report(progress, finished))
        if job is None:
            raise LeaseLost
        self.job, self.stepped = job, time.monotonic()
        if job.cancel_requested:
            raise Cancelled
        if self.draining.is_set() or (finished and self.must_make_room()):
            raise HandBack

    def must_stop(self) -> bool:
        """Within a step: whether the next checkpoint ends the attempt.

        Asked often, from any thread; the database is asked at most every ``ASK_SECONDS``.
        """
        if self.draining.is_set():
            return True
        if self.still_seconds > ASK_SECONDS:
            self.stepped = time.monotonic()
            self._stopped = self._is_unwanted()
        return self._stopped

    def _is_unwanted(self) -> bool:
        try:
            with self.services.database.reading() as connection:
                job = queries.get_job(connection, self.job.id)
        except (OperationalError, InterfaceError):
            return False  # the checkpoint after the step is more patient
        if job is None or job.cancel_requested:
            return True
        return job.state is not JobState.RUNNING or job.attempt != self.number

    def patiently(self, action: Callable[[], Result]) -> Result:
        """Repeat a database action while the database is away, for as long as the lease lasts."""
        deadline = time.monotonic() + self.services.settings.lease_seconds
        while True:
            try:
                return action()
            except (OperationalError, InterfaceError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _report(self, progress: float, finished: Sequence[WindowRow]) -> Job | None:
        with self.services.database.writing() as connection:
            return queries.checkpoint(
                connection,
                self.job,
                lease_until=lease_end(self.services),
                progress=progress,
                finished=finished,
            )

    def must_make_room(self) -> bool:
        """Whether more callers wait than other workers are free to serve.

        Those that only help with another's job count as free: they make room by themselves.
        """
        if self.job.sync and self.job.lane is Lane.INTERACTIVE:
            return False
        with self.services.database.reading() as connection:
            waiting = queries.count_interactive(connection, self.capabilities)
            if not waiting:
                return False
            return waiting > self.count_free(connection, queries.busy_workers(connection))

    def count_free(self, connection: Connection, busy: set[str]) -> int:
        """Other workers that could do all that this one does."""
        live = self.live_workers(connection)
        return sum(worker.id not in busy and self._can_be_replaced_by(worker) for worker in live)

    def live_workers(self, connection: Connection) -> list[Worker]:
        seen_after = now() - timedelta(seconds=self.services.settings.worker_stale_seconds)
        return queries.live_workers(connection, seen_after)

    def _can_be_replaced_by(self, worker: Worker) -> bool:
        return all(worker.offers(capability) for capability in self.capabilities)
