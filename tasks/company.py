"""Short recordings of the bulk lane that are heard in one model call: who, and the call itself.

A batch of windows takes less time than as many calls, and an archive of short files has but one
window each. The job that a worker was sent for takes others like it along; after the call each
goes its own way, with its own result, error and retries. Only first attempts go together, so that
an input that kills its worker is alone the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import perf_counter

import structlog

from app.audio.windows import Window
from app.clock import now
from app.db import queries
from app.db.records import Job
from app.jobs import lifecycle
from app.states import Lane
from models.base import SpeechProvider
from tasks import recall
from tasks.attempt import Attempt
from tasks.hearing import Hearing, opened, options

SEEN = 4  # times as many waiting jobs are looked at as can go together

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Heard:
    """The only window of a recording."""

    hearing: Hearing
    window: Window


def gather(attempt: Attempt, provider: SpeechProvider) -> Iterator[Job]:
    """Claim jobs that can be heard with this one: a fair share of those that wait."""
    size = attempt.services.settings.window_batch
    if size > 1 and provider.info.batches and _is_short(attempt.job, provider):
        alike, workers = attempt.patiently(lambda: _waiting(attempt, provider))
        share = -(-(len(alike) + 1) // workers) - 1
        yield from islice(_claimed(attempt, alike), min(share, size - 1))


def _waiting(attempt: Attempt, provider: SpeechProvider) -> tuple[list[Job], int]:
    """Jobs like this one, and the workers that they are for."""
    job, most = attempt.job, SEEN * attempt.services.settings.window_batch
    with attempt.services.database.reading() as connection:
        found = queries.list_like(
            connection, job, now(), longest=provider.window_seconds, most=most
        )
        workers = max(1, len(attempt.live_workers(connection)))
    return [other for other in found if other.options == job.options], workers


def _is_short(job: Job, provider: SpeechProvider) -> bool:
    seconds = job.input_seconds
    first = job.lane is Lane.BULK and job.attempt == 1
    return first and seconds is not None and seconds <= provider.window_seconds


def _claimed(attempt: Attempt, waiting: Sequence[Job]) -> Iterator[Job]:
    for other in waiting:
        job = attempt.patiently(
            partial(lifecycle.claim, attempt.services, other.id, attempt.worker)
        )
        if job is not None:
            yield job


def hear_together(attempts: Sequence[Attempt], provider: SpeechProvider) -> None:
    """Leave with each attempt what its only window says; one that cannot be heard keeps nothing.

    What goes wrong here goes wrong again when an attempt is on its own, and is told then.
    """
    started = perf_counter()
    new = [attempt for attempt in attempts if recall.is_new(attempt, provider.info)]
    heard = [item for attempt in new if (item := _decoded(attempt, provider))]
    if len(heard) < 2:
        return
    given = replace(options(attempts[0], provider.info), one_language=False)
    called = perf_counter()
    try:
        texts = provider.transcribe([item.window.samples for item in heard], given)
    except Exception as error:  # noqa: BLE001 -- the model's: it is told of the job it belongs to
        log.warning("heard_alone", jobs=len(heard), error=str(error))
        return
    ended = perf_counter()
    for item, text in zip(heard, texts, strict=True):
        hearing = item.hearing
        hearing.attempt.metrics["model_seconds"] = (ended - called) / len(heard)
        hearing.attempt.heard = {item.window.number: hearing.row(item.window, text)}
        hearing.attempt.heard_seconds = (ended - started) / len(heard)
    log.info("heard_together", jobs=len(heard))


def _decoded(attempt: Attempt, provider: SpeechProvider) -> Heard | None:
    hearing = Hearing(attempt=attempt, provider=provider, done={})
    try:
        with opened(attempt) as file:
            windows = next(hearing.batches(file), [])  # a header may have told too little
    except Exception:  # noqa: BLE001 -- the attempt meets it again, and says what it is
        return None
    return Heard(hearing, windows[0]) if len(windows) == 1 else None
