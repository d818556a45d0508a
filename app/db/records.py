"""Rows as frozen values: what leaves the database layer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from app.states import BatchState, Capability, DeliveryState, JobState, Kind, Lane, LineState


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    kind: Kind
    lane: Lane
    state: JobState = JobState.QUEUED
    sync: bool = False
    #: A caller is waiting on the connection; such jobs count against ``audio_queue_depth``.
    options: dict[str, Any] = field(default_factory=dict)
    request_id: str = ""
    traceparent: str = ""
    #: Of the request's span, in W3C's form; empty where nothing is traced.
    owner: str = ""
    #: The API key that it came with; empty where none is asked for.
    input_key: str | None = None
    input_name: str = ""
    input_bytes: int = 0
    input_sha256: str = ""
    input_seconds: float | None = None
    #: As the header declares it; None when it does not.
    created_at: datetime
    enqueued_at: datetime | None = None
    #: When the message was last sent; None: it has yet to be sent.
    run_after: datetime | None = None
    #: A queued job is not to be claimed before then.
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    #: A job that no worker has taken by then has expired.
    expires_at: datetime | None = None
    #: When the finished job and its blobs are deleted.
    attempt: int = 0
    #: Raised by each claim; it fences every later write.
    losses: int = 0
    #: Attempts that ended with the death of their worker since the last finished window.
    faults: int = 0
    #: Attempts that ended with a failing store or database since then.
    last_loss: str | None = None
    #: What the last of either was: the error code that the job gets when it was one too many.
    worker: str | None = None
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    progress: float = 0.0
    error: dict[str, Any] | None = None
    #: OpenAI's error object plus ``status``.
    output_key: str | None = None
    output_bytes: int | None = None
    output_sha256: str | None = None
    model: str | None = None
    metrics: dict[str, float] | None = None
    #: Seconds by stage, and seconds of audio.
    purged_at: datetime | None = None
    #: When its blobs were deleted; the row stays a while to say so.
    batch_id: str | None = None
    callback_url: str | None = None
    cost: float = 0.0
    #: Its size, for estimates: seconds of audio, or characters of text.
    content_key: str | None = None
    #: Of the input, the options and the model's revision: the same key is the same result.

    @property
    def capability(self) -> Capability:
        return self.kind.capability

    @property
    def durable(self) -> bool:
        """A power cut ends the wait of a caller, so a job that only it wanted may end as well."""
        return not self.sync

    @property
    def queue(self) -> str:
        return f"{self.capability}.{self.lane}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model as a worker reports it."""

    name: str
    family: str
    capabilities: tuple[Capability, ...]
    revision: str = ""
    multilingual: bool = True
    voices: tuple[str, ...] = ()
    translates: bool = True
    #: Whether a model that hears also does translations.

    def serves(self, kind: Kind) -> bool:
        able = self.translates or kind is not Kind.TRANSLATION
        return able and kind.capability in self.capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: str
    host: str
    pid: int
    state: str
    #: ``ready`` or ``restarting``
    started_at: datetime
    seen_at: datetime
    models: tuple[LoadedModel, ...] = ()
    memory: dict[str, int] | None = None
    #: Bytes, by what holds them.
    audio_counts: dict[str, int] | None = None
    #: Of its models' waveform boundary, as models/preprocess/metrics names them.

    def seen(self, moment: datetime) -> Self:
        return replace(self, seen_at=moment)

    def offers(self, capability: Capability) -> bool:
        return any(capability in model.capabilities for model in self.models)

    def serves(self, kind: Kind) -> bool:
        return any(model.serves(kind) for model in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A finished window of a long recording, or a finished group of utterances of a long speech."""

    number: int
    start_sample: int
    end_sample: int
    model: str
    """Name and revision: another model's window is no use to a later attempt."""
    transcript: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """A caller's name for a request, so that a repetition joins the job of the first."""

    owner: str
    key: str
    fingerprint: str
    """Of the request's parameters and recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A final state to be told to the job's ``callback_url``."""

    id: str
    job_id: str
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    run_after: datetime
    log: list[dict[str, Any]] = field(default_factory=list)
    """Each attempt: ``at``, and ``status`` or ``error``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """Who may call. The token itself is shown once, when it is made, and kept nowhere."""

    id: str
    name: str
    sha256: str
    requests_per_minute: int | None = None
    #: None: as the settings say; 0: any number.
    created_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An upload, or the output of a batch."""

    id: str
    owner: str = ""
    purpose: str
    filename: str
    bytes: int
    key: str
    #: Of its blob.
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    id: str
    owner: str = ""
    endpoint: str
    input_file_id: str
    state: BatchState = BatchState.VALIDATING
    completion_window: str
    metadata: dict[str, str] | None = None
    errors: list[dict[str, Any]] | None = None
    #: Why the whole batch failed.
    total: int = 0
    completed: int = 0
    failed: int = 0
    #: Lines.
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: datetime
    expires_at: datetime
    in_progress_at: datetime | None = None
    finalizing_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    expired_at: datetime | None = None
    cancelling_at: datetime | None = None
    cancelled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One request of a batch, in the order of its file."""

    number: int
    custom_id: str | None
    state: LineState = LineState.WAITING
    body: dict[str, Any] | None = None
    job_id: str | None = None
    error: dict[str, Any] | None = None
    #: OpenAI's error object plus ``status`` where a job or a submission had one.
