"""The life of a task: claim, work, then finish, fail or hand back. The only broad except is here.

Every step is safe to repeat: a second delivery of a message finds no queued job to claim, and an
attempt that has lost its lease cannot write over a later one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from app.clock import now
from app.db import queries
from app.db.records import Job
from app.errors import ServiceError
from app.jobs import sweep
from app.jobs.errors import CANCELLED, JobError, from_service_error, job_error
from app.jobs.services import Services
from app.states import Capability, JobState, Kind
from app.storage import StorageError, StoredBlob
from models.base import InputRejected, SpeechProvider
from tasks.attempt import Attempt, Cancelled, HandBack, LeaseLost
from tasks.synthesize import synthesize
from tasks.transcribe import transcribe

Body = Callable[[Attempt, SpeechProvider], StoredBlob]
BODIES: dict[Kind, Body] = {
    Kind.TRANSCRIPTION: transcribe,
    Kind.TRANSLATION: transcribe,
    Kind.SPEECH: synthesize,
}

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Runner:
    services: Services
    worker_id: str
    providers: dict[Capability, SpeechProvider]
    draining: threading.Event
    current: Attempt | None = None
    """Read by the heartbeat thread, which renews its lease."""

    def run(self, job_id: str) -> None:
        """Work on the job if it is there to be had; infrastructure errors are raised."""
        job = self._claim(job_id)
        if job is None:
            return
        with structlog.contextvars.bound_contextvars(job_id=job.id, request_id=job.request_id):
            self.current = Attempt(
                services=self.services,
                job=job,
                capabilities=tuple(self.providers),
                draining=self.draining,
            )
            try:
                self._attempt(self.current)
            finally:
                self.current = None

    def _claim(self, job_id: str) -> Job | None:
        moment = now()
        lease = moment + timedelta(seconds=self.services.settings.lease_seconds)
        with self.services.database.writing() as connection:
            return queries.claim(
                connection, job_id, worker=self.worker_id, now=moment, lease_until=lease
            )

    def _attempt(self, attempt: Attempt) -> None:
        started = perf_counter()
        try:
            blob = self._work(attempt)
        except Cancelled:
            self._end(attempt, JobState.CANCELLED, error=CANCELLED)
        except HandBack:
            self._hand_back(attempt)
        except LeaseLost:
            log.warning("lease_lost", attempt=attempt.number)
        except (StorageError, DBAPIError):
            # Not the job's fault: its lease runs out and the sweeper gives it to another attempt.
            raise
        except ServiceError as error:
            self._end(attempt, JobState.FAILED, error=from_service_error(error))
        except InputRejected as error:
            self._end(attempt, JobState.FAILED, error=_rejected(error))
        except Exception as error:  # a model's fault is that job's error and the worker lives
            log.exception("model_failed")
            self._end(attempt, JobState.FAILED, error=_failed(error))
        else:
            attempt.metrics["run_seconds"] = perf_counter() - started
            self._succeed(attempt, blob)

    def _work(self, attempt: Attempt) -> StoredBlob:
        provider = self.providers[attempt.job.capability]
        return BODIES[attempt.job.kind](attempt, provider)

    def _succeed(self, attempt: Attempt, blob: StoredBlob) -> None:
        done = self._end(
            attempt,
            JobState.SUCCEEDED,
            output_key=blob.key,
            output_bytes=blob.size,
            output_sha256=blob.sha256,
            model=self.providers[attempt.job.capability].info.name,
            progress=1.0,
        )
        if not done:
            self.services.store.delete(blob.key)  # nobody can ever see it
        elif attempt.job.input_key and not self.services.settings.keep_inputs:
            self.services.store.delete(attempt.job.input_key)
            with self.services.database.writing() as connection:
                queries.forget_input(connection, attempt.job.id)

    def _end(self, attempt: Attempt, state: JobState, **values: Any) -> bool:
        moment = now()
        with self.services.database.writing() as connection:
            moved = queries.move(
                connection,
                attempt.job.id,
                JobState.RUNNING,
                state,
                fence=attempt.number,
                finished_at=moment,
                expires_at=self.services.settings.expiry(moment),
                lease_expires_at=None,
                metrics=attempt.metrics,
                **values,
            )
        self.services.announcer.announce(attempt.job.id)
        log.info("job_ended", state=state if moved else "superseded", **attempt.metrics)
        return moved is not None

    def _hand_back(self, attempt: Attempt) -> None:
        with self.services.database.writing() as connection:
            moved = queries.move(
                connection,
                attempt.job.id,
                JobState.RUNNING,
                JobState.QUEUED,
                fence=attempt.number,
                worker=None,
                lease_expires_at=None,
            )
        if moved:
            sweep.ring(self.services, moved)
            log.info("job_handed_back", attempt=attempt.number)


def _rejected(error: InputRejected) -> JobError:
    return job_error(str(error), status=400, type_="invalid_request_error", code="rejected")


def _failed(error: Exception) -> JobError:
    return job_error(
        f"audio model inference failed: {error}",
        status=500,
        type_="server_error",
        code="model_failed",
    )
