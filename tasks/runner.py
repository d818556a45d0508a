"""The life of a task: claim, work, then finish, fail or hand back. The only broad except is here.

Every step is safe to repeat: a second delivery of a message finds no queued job to claim, and an
attempt that has lost its lease cannot write over a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, time_ns

import structlog
from sqlalchemy.exc import DBAPIError

from app import telemetry
from app.db import queries, retention
from app.db.records import Job, Worker
from app.errors import KindNotLoaded, ServiceError
from app.jobs import lifecycle
from app.jobs.errors import (
    DATABASE_FAILED,
    STORAGE_FAILED,
    JobError,
    Loss,
    from_service_error,
    job_error,
)
from app.jobs.services import Services
from app.scrub import scrubbed
from app.states import Capability, Kind
from app.storage import StorageError, StoredBlob, keys
from models.base import CountingProvider, InputRejected, SpeechProvider
from tasks import recall
from tasks.attempt import Attempt, Cancelled, HandBack, Interrupted, LeaseLost, Stop
from tasks.company import gather, hear_together
from tasks.draining import Draining
from tasks.helping import Helping, can_help, help_out
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
    worker: Worker
    providers: dict[Kind, SpeechProvider]
    draining: Draining
    current: Attempt | None = None
    """Read by the heartbeat thread, which renews its lease."""
    worn_out: bool = False
    """The process is to be replaced by a new one."""

    def run(self, job_id: str) -> None:
        """Work on the job if it is there to be had."""
        began = time_ns()
        job = lifecycle.claim(self.services, job_id, self.worker.id)
        if job is None:
            log.info("delivery_ignored", job_id=job_id)  # delivered twice, cancelled or done
            return
        self.current = self._attempt_at(job)
        try:
            self._take_along(self.current)
            while self.current:
                self._traced_attempt(self.current, began)
                self.current = self._next(self.current.company)
        except Interrupted:
            if self.current:
                for attempt in (self.current, *self.current.company):
                    self._hand_back(attempt)
        finally:
            self.current = None

    def _attempt_at(self, job: Job) -> Attempt:
        return Attempt(
            services=self.services,
            job=job,
            capabilities=capabilities(self.providers),
            draining=self.draining,
        )

    def _take_along(self, first: Attempt) -> None:
        """Attempts at other jobs that are heard in the same model call."""
        provider = self.providers.get(first.job.kind)
        if provider is None or first.job.kind is Kind.SPEECH:
            return
        for job in gather(first, provider):
            first.company = (*first.company, self._attempt_at(job))
        if first.company:
            hear_together([first, *first.company], provider)

    def _next(self, company: tuple[Attempt, ...]) -> Attempt | None:
        if not company:
            return None
        company[0].company = company[1:]
        return company[0]

    def _traced_attempt(self, attempt: Attempt, began: int) -> None:
        with _traced(attempt.job, "attempt", began):
            with telemetry.span("claim", began=began):
                pass
            self._attempt(attempt)

    def help(self, job_id: str, number: int) -> None:
        """Do a part of an attempt that another worker leads, if that is still under way."""
        began = time_ns()
        with self.services.database.reading() as connection:
            job = queries.get_job(connection, job_id)
        if job and can_help(job, number) and job.kind in self.providers:
            with _traced(job, "help", began):
                self._help(job)

    def _help(self, job: Job) -> None:
        helping = self.current = Helping(
            services=self.services,
            job=job,
            capabilities=capabilities(self.providers),
            draining=self.draining,
            helper=self.worker.id,
        )
        try:
            help_out(helping, self.providers[job.kind])
        except (Stop, Interrupted) as reason:
            telemetry.note(outcome=type(reason).__name__)
        except Exception:  # the leader meets the same fault, unless it is this worker's own
            log.exception("help_failed")
        finally:
            helping.let_go()
            self.current = None
        log.info("worker_left", **helping.metrics)

    def _attempt(self, attempt: Attempt) -> None:
        started = perf_counter()
        try:
            blob = self._work(attempt)
            attempt.metrics["run_seconds"] = perf_counter() - started + attempt.heard_seconds
            self._succeed(attempt, blob)
        except Cancelled:
            telemetry.note(outcome="cancelled")
            lifecycle.cancelled(self.services, attempt.job)
        except HandBack:
            self._hand_back(attempt)
        except recall.Underway:
            telemetry.note(outcome="postponed")
            lifecycle.postpone(self.services, attempt.job, recall.WAIT_SECONDS)
        except LeaseLost:
            telemetry.note(outcome="lease_lost")
            log.warning("lease_lost", attempt=attempt.number)
        except DBAPIError as error:
            self._lose(attempt, DATABASE_FAILED, error)
        except (StorageError, OSError) as error:
            self._lose(attempt, STORAGE_FAILED, error)
        except ServiceError as error:
            self._fail(attempt, from_service_error(error))
        except InputRejected as error:
            self._fail(attempt, _rejected(error))
        except Exception as error:  # a model's fault is that job's error and the worker lives
            log.exception("model_failed")
            self._fail(attempt, _failed(error))

    def _work(self, attempt: Attempt) -> StoredBlob:
        provider = self._provider(attempt.job.kind)
        found = None if attempt.heard else recall.recall(attempt, provider.info)
        return found or BODIES[attempt.job.kind](attempt, provider)

    def _provider(self, kind: Kind) -> SpeechProvider:
        try:
            return self.providers[kind]
        except KeyError:  # the front door saw another worker, whose models are not this one's
            raise KindNotLoaded(f"audio model kind not loaded: {kind.capability}") from None

    def audio_counts(self) -> dict[str, int] | None:
        """What the waveform boundary has counted, if a model has one."""
        for provider in self.providers.values():
            if isinstance(provider, CountingProvider):
                return provider.counts()
        return None

    def _succeed(self, attempt: Attempt, blob: StoredBlob) -> None:
        model = self._provider(attempt.job.kind).info
        done = attempt.patiently(
            lambda: lifecycle.succeed(
                self.services,
                attempt.job,
                blob,
                model=model.name,
                metrics=attempt.metrics,
                content_key=recall.content_key(attempt.job, model),
            )
        )
        if done is None:
            log.warning("result_dropped", attempt=attempt.number)
            self._drop(keys.folder(blob.key))  # nobody can ever see what came too late
            return
        telemetry.note(outcome="succeeded", model=model.name, **attempt.metrics)
        log.info("job_succeeded", **attempt.metrics)
        if attempt.leftovers:
            self._drop_leftovers(attempt.leftovers)
        if done.input_key and not self.services.settings.keep_inputs:
            self._drop_input(done.id, done.input_key)

    def _drop(self, folder: str) -> None:
        for blob in list(self.services.store.list(folder)):
            self.services.store.delete(blob.key)

    def _drop_leftovers(self, folder: str) -> None:
        try:
            self._drop(folder)
        except (StorageError, OSError) as error:
            log.warning("leftovers_kept", error=str(error))  # they go with the job

    def _drop_input(self, job_id: str, key: str) -> None:
        try:
            self.services.store.delete(key)
        except (StorageError, OSError) as error:
            log.warning("input_kept", error=str(error))  # it goes with the job
            return
        with self.services.database.writing() as connection:
            retention.forget_input(connection, job_id)

    def _fail(self, attempt: Attempt, error: JobError) -> None:
        attempt.patiently(
            lambda: lifecycle.fail(self.services, attempt.job, error, metrics=attempt.metrics)
        )
        telemetry.failed(error["code"])
        log.info("job_failed", code=error["code"], **attempt.metrics)

    def _lose(self, attempt: Attempt, loss: Loss, error: Exception) -> None:
        """Should the database be away for this too, the lease runs out."""
        telemetry.failed(loss.code)
        log.warning("attempt_failed", loss=loss.code, error=str(error))
        attempt.patiently(lambda: lifecycle.lose(self.services, attempt.job, loss))

    def _hand_back(self, attempt: Attempt) -> None:
        telemetry.note(outcome="handed_back")
        moved = attempt.patiently(lambda: lifecycle.hand_back(self.services, attempt.job))
        if moved:
            log.info("job_handed_back", attempt=attempt.number, state=moved.state)


@contextmanager
def _traced(job: Job, part: str, began: int) -> Iterator[None]:
    """The worker's part in the logs, and in the trace of the job's request.

    ``began``: when it first heard of the job, in nanoseconds.
    """
    with (
        structlog.contextvars.bound_contextvars(job_id=job.id, request_id=job.request_id),
        telemetry.work(
            f"{job.kind} {part}",
            parent=job.traceparent,
            began=began,
            job_id=job.id,
            request_id=job.request_id,
            kind=job.kind,
            lane=job.lane,
            attempt=job.attempt,
        ),
    ):
        yield


def capabilities(providers: Iterable[Kind]) -> tuple[Capability, ...]:
    """What a worker with models for these kinds offers, each once, in order."""
    return tuple(dict.fromkeys(kind.capability for kind in providers))


def _rejected(error: InputRejected) -> JobError:
    return job_error(scrubbed(error), status=400, type_="invalid_request_error", code="rejected")


def _failed(error: Exception) -> JobError:
    return job_error(
        f"audio model inference failed: {scrubbed(error)}",
        status=500,
        type_="server_error",
        code="model_failed",
    )
