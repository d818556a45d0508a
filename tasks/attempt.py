"""One attempt at a job: its fence, its checkpoints, and the reasons to stop between two steps."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta

from app.clock import now
from app.db import queries
from app.db.records import Job
from app.jobs.services import Services
from app.states import Capability, Lane


class Stop(Exception):
    """The attempt ends here without a result."""


class Cancelled(Stop):
    """Somebody asked for the job to be cancelled."""


class HandBack(Stop):
    """The job goes back into the queue: the worker drains, or a waiting caller comes first."""


class LeaseLost(Stop):
    """The job belongs to another attempt by now, or is gone."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    services: Services
    job: Job
    """As claimed."""
    capabilities: tuple[Capability, ...]
    """Of this worker: callers waiting for them come before a job that nobody waits for."""
    draining: threading.Event
    metrics: dict[str, float] = field(default_factory=dict)
    """Seconds by stage, kept with the job."""

    @property
    def number(self) -> int:
        return self.job.attempt

    def renew(self) -> Job | None:
        """Hold the job for another lease; None when it has been lost."""
        until = now() + timedelta(seconds=self.services.settings.lease_seconds)
        with self.services.database.writing() as connection:
            return queries.renew_lease(
                connection, self.job.id, fence=self.number, lease_until=until
            )

    def checkpoint(self, progress: float) -> None:
        """Between two steps of the work: report, and stop if there is a reason to (raises Stop)."""
        job = self.renew()
        if job is None:
            raise LeaseLost
        if job.cancel_requested:
            raise Cancelled
        if self.draining.is_set() or self._must_make_room():
            raise HandBack
        with self.services.database.writing() as connection:
            queries.set_progress(connection, job.id, fence=self.number, progress=progress)

    def _must_make_room(self) -> bool:
        if self.job.sync and self.job.lane is Lane.INTERACTIVE:
            return False
        with self.services.database.reading() as connection:
            return queries.interactive_waiting(connection, self.capabilities)
