"""The bounded host stage: requests in, prepared prefills out, one worker thread between.

Owns admission, order, the guard's way from job to result, and what is counted. Its queue refuses
when full; its result channel makes the worker wait, so that a consumer that stalls cannot pile up
tensors. What the features are is the producer's business.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any, Self

from models.base import ModelError
from models.preprocess.batch import WaveformBatch, prepare
from models.preprocess.cancellation import (
    Cancelled,
    Checkpoint,
    PreprocessingCancelled,
    never,
    poll_at,
)
from models.preprocess.channel import Channel, Closed, Full
from models.preprocess.errors import WaveformError
from models.preprocess.features.errors import FeatureCancelled
from models.preprocess.metrics import AudioMetrics, Rejection
from models.preprocess.policy import AudioPolicy
from models.preprocess.reservation import Ledger, MemoryRefused, Reservation, queued_text
from models.preprocess.source import EncodedClip

U64_MAX = (1 << 64) - 1
# What a waiting request takes besides its audio, in bytes.
REQUEST_BYTES, CLIP_BYTES, TOKEN_BYTES = 512, 64, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLimits:
    queue_depth: int = 8
    result_depth: int = 2
    max_queued_encoded_bytes: int = 536_870_912
    max_inflight_host_bytes: int = 1280 << 20
    max_prefill: int
    """Positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    clips: tuple[EncodedClip, ...]
    token_ids: tuple[int, ...] = ()
    cancelled: Cancelled = never


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prefill:
    """What a family's producer makes of a batch."""

    positions: int
    host_bytes: int
    payload: Any


Producer = Callable[[Request, WaveformBatch], Prefill]
"""Makes features and the expanded prompt; asks `Request.cancelled` on the way."""


class Rejected(ModelError):
    """The request was turned away, for exactly one reason."""

    def __init__(self, reason: Rejection, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotAdmitted(ModelError):
    """Given up before it was queued."""

    def __init__(self) -> None:
        super().__init__("audio preprocessing was cancelled before queue admission")


class Closing(ABC):
    """A context manager that closes what it is."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared(Closing):
    """A result, which keeps its request's bytes reserved until it is closed."""

    number: int
    batch: WaveformBatch
    prefill: Prefill
    reservation: Reservation

    def close(self) -> None:
        self.reservation.release()


@dataclass(frozen=True, kw_only=True, eq=False)
class Refused(Closing):
    """A request that failed after admission; nothing is reserved for it any more."""

    number: int
    error: ModelError

    def close(self) -> None:
        """Nothing to give back."""


Outcome = Prepared | Refused


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    number: int
    request: Request
    reservation: Reservation


class HostStage(Closing):
    """A context manager; leaving it gives back whatever no consumer has taken."""

    def __init__(
        self, policy: AudioPolicy, producer: Producer, limits: StageLimits, metrics: AudioMetrics
    ) -> None:
        self._policy, self._producer, self._limits = policy, producer, limits
        self._metrics = metrics
        self.ledger = Ledger(
            max_encoded_bytes=limits.max_queued_encoded_bytes,
            max_host_bytes=limits.max_inflight_host_bytes,
            metrics=metrics,
        )
        self._jobs = Channel[_Job](limits.queue_depth)
        self._results = Channel[Outcome](limits.result_depth)
        self._numbers = count(1)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audio-preprocess", daemon=True)
        self._thread.start()

    def try_submit(self, request: Request) -> int:
        """The number that the request's outcome will carry; never waits."""
        try:
            return self._admit(request)
        except Rejected as error:
            self._metrics.count_rejected(error.reason)
            raise

    def take(self, timeout: float | None = None) -> Outcome:
        """The next outcome, in the order of admission; the caller closes it. Closed at the end."""
        return self._results.get(timeout)

    def close(self) -> None:
        self._stopping.set()
        self._shut()
        self._thread.join()

    def _admit(self, request: Request) -> int:
        if request.cancelled():
            self._metrics.count_cancelled()
            raise NotAdmitted
        job = _Job(number=next(self._numbers), request=request, reservation=self._reserve(request))
        try:
            self._jobs.put_nowait(job)
        except Full:
            job.reservation.release()
            text = "audio preprocessing queue is full"
            raise Rejected(Rejection.QUEUE_FULL, text) from None
        except Closed:
            job.reservation.release()
            text = "audio preprocessing worker is unavailable"
            raise Rejected(Rejection.WORKER_UNAVAILABLE, text) from None
        return job.number

    def _reserve(self, request: Request) -> Reservation:
        encoded, most = _encoded_bytes(request), self._policy.max_encoded_bytes_per_request
        if encoded > most:
            text = queued_text(encoded, self.ledger.encoded_bytes, most)
            raise Rejected(Rejection.MEMORY_LIMIT, text)
        host = self._host_bytes(request)
        if host > U64_MAX:
            text = "audio queued-memory size calculation overflowed"
            raise Rejected(Rejection.OVERFLOW, text)
        try:
            return self.ledger.reserve(encoded_bytes=encoded, host_bytes=host)
        except MemoryRefused as error:
            raise Rejected(Rejection.MEMORY_LIMIT, str(error)) from error

    def _host_bytes(self, request: Request) -> int:
        """What the request may come to hold at once, from now to the end of its result."""
        clips, tokens = len(request.clips), len(request.token_ids)
        envelope = REQUEST_BYTES + TOKEN_BYTES * tokens + CLIP_BYTES * clips
        return (
            envelope
            + _encoded_bytes(request)
            + self._policy.max_waveform_working_bytes_per_request
            + self._policy.max_prepared_result_bytes_per_request
        )

    def _work(self) -> None:
        try:
            while True:
                outcome = self._process(self._jobs.get())
                try:
                    self._results.put(outcome)
                except Closed:
                    outcome.close()
                    raise
        except Closed:
            return
        finally:
            self._shut()  # also if the thread dies: then submissions are refused

    def _shut(self) -> None:
        for job in self._jobs.close():
            job.reservation.release()
        for outcome in self._results.close():
            outcome.close()

    def _process(self, job: _Job) -> Outcome:
        started = perf_counter()
        kept = False
        try:
            prepared = self._prepare(job)
            kept = True
        except (PreprocessingCancelled, FeatureCancelled) as error:
            self._metrics.count_cancelled()
            return Refused(number=job.number, error=error)
        except Rejected as error:
            self._metrics.count_rejected(error.reason)
            return Refused(number=job.number, error=error)
        finally:
            if not kept:
                job.reservation.release()
            self._metrics.count_latency(perf_counter() - started)
        return prepared

    def _prepare(self, job: _Job) -> Prepared:
        batch = self._waveforms(job.request)
        self._metrics.count_waveform(batch)
        poll = poll_at(self._cancelled(job.request), Checkpoint.FEATURE, None)
        poll()
        prefill = self._produced(job.request, batch)
        poll()
        self._check(prefill)
        self._metrics.count_prefill(prefill.positions)
        return Prepared(
            number=job.number, batch=batch, prefill=prefill, reservation=job.reservation
        )

    def _waveforms(self, request: Request) -> WaveformBatch:
        cancelled = self._cancelled(request)
        poll_at(cancelled, Checkpoint.QUEUE, None)()
        try:
            return prepare(request.clips, self._policy, cancelled)
        except PreprocessingCancelled:
            raise
        except WaveformError as error:
            raise Rejected(Rejection.WAVEFORM, str(error)) from error

    def _produced(self, request: Request, batch: WaveformBatch) -> Prefill:
        family = self._policy.family
        try:
            return self._producer(request, batch)
        except (PreprocessingCancelled, FeatureCancelled):
            raise
        except ModelError as error:
            text = f"audio feature preprocessing failed for {family}: {error}"
            raise Rejected(Rejection.FEATURE, text) from error
        except Exception as error:  # one request's fault must not end the worker
            text = f"audio feature preprocessing panicked for {family}"
            raise Rejected(Rejection.FEATURE_PANIC, text) from error

    def _check(self, prefill: Prefill) -> None:
        family, most = self._policy.family, self._limits.max_prefill
        if prefill.positions > most:
            raise Rejected(
                Rejection.CONTEXT_LIMIT,
                f"audio prepared-prefill context limit exceeded for {family}: "
                f"actual {prefill.positions}, maximum {most}",
            )
        most = self._policy.max_prepared_result_bytes_per_request
        if prefill.host_bytes > most:
            raise Rejected(
                Rejection.MEMORY_LIMIT,
                f"audio prepared-prefill host-memory limit exceeded for {family}: "
                f"actual {prefill.host_bytes} bytes, maximum {most} bytes",
            )

    def _cancelled(self, request: Request) -> Cancelled:
        return lambda: request.cancelled() or self._stopping.is_set()


def _encoded_bytes(request: Request) -> int:
    return sum(len(clip.data) for clip in request.clips)
