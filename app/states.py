"""The vocabulary of a job: its kinds, lanes and states, and the moves between states."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        return not MOVES[self]


MOVES: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset(
        {JobState.RUNNING, JobState.CANCELLED, JobState.FAILED, JobState.EXPIRED}
    ),
    # Back to queued: its worker drained, was lost, or made room for an interactive job.
    JobState.RUNNING: frozenset(
        {JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.EXPIRED: frozenset(),
}


class Kind(StrEnum):
    TRANSCRIPTION = "transcription"
    TRANSLATION = "translation"
    SPEECH = "speech"

    @property
    def capability(self) -> Capability:
        return Capability.TTS if self is Kind.SPEECH else Capability.STT


class Capability(StrEnum):
    """What a worker can do; the names match models.base.Capability."""

    STT = "stt"
    TTS = "tts"


class Lane(StrEnum):
    """Workers read the lanes in this order."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


class DeliveryState(StrEnum):
    """Of a webhook."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class BatchState(StrEnum):
    """As OpenAI's API names them."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return not BATCH_MOVES[self]


BATCH_MOVES: dict[BatchState, frozenset[BatchState]] = {
    BatchState.VALIDATING: frozenset(
        {BatchState.IN_PROGRESS, BatchState.FAILED, BatchState.CANCELLING}
    ),
    BatchState.IN_PROGRESS: frozenset({BatchState.FINALIZING, BatchState.CANCELLING}),
    BatchState.FINALIZING: frozenset({BatchState.COMPLETED, BatchState.EXPIRED}),
    BatchState.CANCELLING: frozenset({BatchState.CANCELLED}),
    BatchState.COMPLETED: frozenset(),
    BatchState.FAILED: frozenset(),
    BatchState.EXPIRED: frozenset(),
    BatchState.CANCELLED: frozenset(),
}


class LineState(StrEnum):
    """Of one request in a batch."""

    WAITING = "waiting"
    SUBMITTED = "submitted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
