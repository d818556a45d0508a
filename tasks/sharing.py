"""How the worker that leads a job shares its windows with others, and waits for theirs.

Nothing is shared, and nothing written for it, until the language is known, enough is left and
another worker with the same model has nothing to do. From then on each batch is taken before it is
heard, by the leader too. A later attempt invites nobody before it has got on: with helpers at other
windows, one that kills its workers would never be found out. What a helper does is in helping.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app.audio.windows import Window
from app.clock import now
from app.db import queries, shares, windows
from app.db.records import WindowRow, Worker
from app.jobs import lifecycle
from app.jobs.lifecycle import lease_end
from tasks.hearing import Hearing, samples_in

POLL_SECONDS = 0.25  # s between two looks for the windows that others are at


@dataclass(slots=True, kw_only=True)
class Sharing:
    hearing: Hearing
    allowed: bool
    """False: somebody follows the text, which others would leave gaps in."""
    open: bool = False
    """Others may be at windows of this attempt."""

    def take(self, batch: Sequence[Window]) -> bool:
        """Whether the leader is to hear what is missing of the batch."""
        return not self.open or take(self.hearing, batch, leads=True)

    def progress(self, rows: Sequence[WindowRow]) -> float:
        """Of all together, with these that are not kept yet."""
        hearing, attempt = self.hearing, self.hearing.attempt
        if not self.open:
            return hearing.progress(samples_in(hearing.done.values()))

        def count() -> int:
            with attempt.services.database.reading() as connection:
                return windows.count_samples(connection, attempt.job.id, hearing.model)

        return hearing.progress(attempt.patiently(count) + samples_in(rows))

    def invite(self) -> None:
        """Ask whoever has nothing to do, if there is work for two."""
        attempt = self.hearing.attempt
        if self.allowed and self._is_enough():
            free = attempt.patiently(self._free_workers)
            if any(map(self._has_the_model, free)):
                self.open = True
                lifecycle.invite(attempt.services, attempt.job, len(free))

    def _is_enough(self) -> bool:
        """More than one batch left, as far as the recording says how long it is."""
        job, settings = self.hearing.attempt.job, self.hearing.attempt.services.settings
        batch_seconds = settings.window_batch * self.hearing.provider.window_seconds
        return not job.input_seconds or (1.0 - job.progress) * job.input_seconds > batch_seconds

    def _free_workers(self) -> list[Worker]:
        """All that an invitation may reach."""
        attempt = self.hearing.attempt
        with attempt.services.database.reading() as connection:
            live = attempt.live_workers(connection)
            if len(live) < 2:  # which is all that a single worker ever asks
                return []
            busy = queries.busy_workers(connection) | shares.busy_workers(connection, now())
        able = [worker for worker in live if worker.offers(attempt.job.capability)]
        return [worker for worker in able if worker.id not in busy]

    def _has_the_model(self, worker: Worker) -> bool:
        own = self.hearing.provider.info
        return any((m.name, m.revision) == (own.name, own.revision) for m in worker.models)

    def is_complete(self) -> bool:
        """Once the leader has been through the recording: wait for what others have taken.

        False when some of it is left lying, for the leader to go through the recording again.
        Raises Stop.
        """
        hearing, attempt = self.hearing, self.hearing.attempt
        while left := hearing.unheard():
            if attempt.must_stop():
                attempt.checkpoint(attempt.job.progress)  # raises the reason
            at_work = attempt.patiently(lambda: self._look(left))
            still = hearing.unheard()
            if not {self._share_of(number) for number in still} <= at_work:
                return False
            if still:
                time.sleep(POLL_SECONDS)
        return True

    def _look(self, left: Sequence[int]) -> set[int]:
        """Take over what has been heard of these; the shares that are still being worked at."""
        attempt = self.hearing.attempt
        with attempt.services.database.reading() as connection:
            at_work = shares.in_hand(connection, attempt.job, now())  # first, or one may end unseen
            _adopt(connection, self.hearing, left[0], left[-1])
        return at_work

    def _share_of(self, number: int) -> int:
        return number - number % self.hearing.attempt.services.settings.window_batch


def take(hearing: Hearing, batch: Sequence[Window], *, leads: bool = False) -> bool:
    """Whether this worker is to hear what is missing of the batch: nobody else is at it."""
    return hearing.attempt.patiently(lambda: _take(hearing, batch, leads=leads))


def _take(hearing: Hearing, batch: Sequence[Window], *, leads: bool) -> bool:
    attempt, first, last = hearing.attempt, batch[0].number, batch[-1].number
    database = attempt.services.database
    with database.reading() as connection:
        _adopt(connection, hearing, first, last)
    if not hearing.missing(batch):
        return False
    with database.writing(durable=False) as connection:
        if not _take_share(connection, hearing, first, leads=leads):
            return False
        _adopt(connection, hearing, first, last)  # of who had it until a moment ago
    return bool(hearing.missing(batch))


def _take_share(connection: Connection, hearing: Hearing, first: int, *, leads: bool) -> bool:
    """The leader's needs no lease: nobody takes it over, and its attempt ends with the job's."""
    job, worker, moment = hearing.attempt.job, hearing.attempt.worker, now()
    until = moment if leads else lease_end(hearing.attempt.services)
    if shares.take(connection, job, first, worker=worker, lease_until=until):
        return True
    return leads and shares.take_over(connection, job, first, worker=worker, now=moment)


def _adopt(connection: Connection, hearing: Hearing, first: int, last: int) -> None:
    job_id = hearing.attempt.job.id
    hearing.adopt(windows.get(connection, job_id, first=first, last=last))
