"""Rows as frozen values: what leaves the database layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.states import Capability, JobState, Kind, Lane


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
    input_key: str | None = None
    input_name: str = ""
    input_bytes: int = 0
    input_sha256: str = ""
    input_seconds: float | None = None
    #: As the header declares it; None when it does not.
    created_at: datetime
    enqueued_at: datetime | None = None
    #: When the message was last sent.
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    #: A queued job not started by then has expired.
    expires_at: datetime | None = None
    #: When the finished job and its blobs are deleted.
    attempt: int = 0
    #: Raised by each claim; it fences every later write.
    losses: int = 0
    #: Attempts that ended with the death of their worker.
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

    @property
    def capability(self) -> Capability:
        return self.kind.capability

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: str
    host: str
    pid: int
    state: str
    #: ``loading``, ``ready`` or ``draining``
    started_at: datetime
    seen_at: datetime
    models: tuple[LoadedModel, ...] = ()

    def offers(self, capability: Capability) -> bool:
        return any(capability in model.capabilities for model in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A finished window of a long recording."""

    number: int
    start_sample: int
    end_sample: int
    transcript: dict[str, Any]
