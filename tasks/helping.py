"""Helping with a job that another worker leads: hear batches of windows that nobody is at.

The helper goes from front to back and takes what it finds free. It leaves between two batches when
the attempt has ended, or for anything that it could do instead: it only fills time that would be
idle. What goes wrong here is the leader's to find out, who takes over what is left lying.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.audio.windows import Window
from app.clock import now
from app.db import queries, shares
from app.db.records import Job, WindowRow
from app.jobs.errors import Loss
from app.jobs.lifecycle import lease_end
from app.states import JobState
from models.base import SpeechProvider
from tasks.attempt import Attempt
from tasks.hearing import FIRST, Hearing, opened, samples_in
from tasks.kept import stored_rows
from tasks.sharing import take

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Helping(Attempt):
    """A part in an attempt that is another worker's."""

    helper: str
    share: int | None = None
    """First window of what is in hand."""

    @property
    def worker(self) -> str:
        return self.helper

    def renew(self) -> bool:
        until = lease_end(self.services)
        with self.services.database.writing() as connection:
            return shares.renew(
                connection, self.job, worker=self.helper, now=now(), lease_until=until
            )

    def give_away(self, loss: Loss) -> None:  # noqa: ARG002 - the leader does not count it
        self.let_go()

    def let_go(self) -> None:
        """What is in hand is the leader's from now on, or once its lease has run out."""
        with suppress(SQLAlchemyError):
            if self.share is not None:
                with self.services.database.writing() as connection:
                    self._end_share(connection)

    def must_make_room(self) -> bool:
        """Whether more jobs wait than other workers are free to do."""
        moment = now()
        with self.services.database.reading() as connection:
            busy = queries.busy_workers(connection) | shares.busy_workers(connection, moment)
            free = self.count_free(connection, busy | {self.helper})
            return queries.count_due(connection, self.capabilities, moment, most=free + 1) > free

    def _report(self, progress: float, finished: Sequence[WindowRow]) -> Job | None:  # noqa: ARG002 - the leader tells it
        if not finished:  # the model's call was given up
            return None if self._is_unwanted() else self.job
        with self.services.database.writing() as connection:
            if self._end_share(connection):
                return queries.keep_windows(connection, self.job, finished)
        return None

    def _end_share(self, connection: Connection) -> bool:
        """False when the leader has taken it over."""
        share, self.share = self.share, None
        return share is not None and shares.end(
            connection, self.job, share, worker=self.helper, now=now()
        )


def can_help(job: Job, number: int) -> bool:
    """Whether the attempt that asked for help is still under way."""
    wanted = job.state is JobState.RUNNING and not job.cancel_requested
    return wanted and job.attempt == number


def help_out(helping: Helping, provider: SpeechProvider) -> None:
    """Raises Stop, and whatever hearing raises."""
    hearing = Hearing(attempt=helping, provider=provider, done=stored_rows(helping, provider))
    if FIRST not in hearing.done and not helping.job.options.get("language"):
        return  # nobody has found out what is spoken, not with this model
    log.info("worker_joined", leader=helping.job.worker, attempt=helping.number)
    with opened(helping) as file:
        for batch in hearing.batches(file):
            if helping.must_stop() or helping.must_make_room():
                return
            if hearing.missing(batch) and take(hearing, batch):
                _hear(helping, hearing, batch)


def _hear(helping: Helping, hearing: Hearing, batch: Sequence[Window]) -> None:
    helping.share = batch[0].number
    rows = hearing.hear(batch)
    helping.checkpoint(helping.job.progress, rows)
    heard = helping.metrics.get("audio_seconds", 0.0)
    helping.metrics["audio_seconds"] = heard + samples_in(rows) / hearing.provider.sample_rate
