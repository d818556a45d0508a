"""Every setting with its default and unit, read once from ``VOXQUEUE_…`` variables.

The defaults need no server: SQLite, a directory and an embedded broker, all below ``data_dir``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "VOXQUEUE_"
DEFAULT_TIMEOUT_SECONDS = 120.0


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    data_dir: Path = Path("data")
    database_url: str = ""
    """Empty: SQLite in the data directory."""
    broker_url: str = ""
    """Empty: the embedded Valkey that ``voxqueue serve`` starts in the data directory."""
    broker_prefix: str = "voxqueue:"
    """Set before every key, so that several installations can share one Valkey."""
    storage_url: str = ""
    """Empty: a directory in the data directory."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    stt_model: str = "whisper-base"
    """Catalogue name or directory; empty: none."""
    tts_model: str = "kokoro-82m"

    audio_queue_depth: int = 8
    """Synchronous requests that may wait behind those in flight; 0 means 1."""
    audio_request_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """0 means the default."""
    upload_timeout_seconds: PositiveFloat = 120.0
    """How long a request body may take to arrive."""
    max_upload_bytes: PositiveInt = 26_214_400
    max_audio_seconds: PositiveInt = 600

    heartbeat_seconds: PositiveFloat = 2.0
    worker_stale_seconds: PositiveFloat = 10.0
    """A worker that has not been seen for this long is not counted as live."""
    lease_seconds: PositiveFloat = 20.0
    """A running job whose lease was not renewed for this long is given to another worker."""
    sweep_seconds: PositiveFloat = 2.0
    resend_seconds: PositiveFloat = 30.0
    """A queued job whose message was sent this long ago is sent again: duplicates are harmless."""
    max_attempts: PositiveInt = 3
    window_batch: PositiveInt = 8
    """Windows in one model call, and so the grain of cancelling, draining and pre-emption."""
    retention_seconds: PositiveFloat = 7 * 86_400.0
    """How long a finished job and its blobs are kept."""
    keep_inputs: bool = True
    """False: an upload is deleted as soon as its job has succeeded."""

    @field_validator("audio_queue_depth")
    @classmethod
    def _depth(cls, value: int) -> int:
        if value < 0:
            msg = "must not be negative"
            raise ValueError(msg)
        return value or 1

    @field_validator("audio_request_timeout_seconds")
    @classmethod
    def _timeout(cls, value: float) -> float:
        if not 0 <= value < float("inf"):
            msg = "must be a finite number of seconds, zero or more"
            raise ValueError(msg)
        return value or DEFAULT_TIMEOUT_SECONDS

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'db.sqlite'}"

    @property
    def storage_dir(self) -> Path:
        return self.data_dir.absolute() / "blobs"

    def expiry(self, finished_at: datetime) -> datetime:
        """When a job that ended then is deleted."""
        return finished_at + timedelta(seconds=self.retention_seconds)

    def with_changes(self, **changes: object) -> Self:
        """A copy with the given values validated; None leaves a value as it is."""
        given = {key: value for key, value in changes.items() if value is not None}
        return type(self)(**{**self.model_dump(), **given})

    def to_env(self) -> dict[str, str]:
        """The same settings as environment variables, for child processes."""
        return {f"{PREFIX}{key.upper()}": str(value) for key, value in self.model_dump().items()}
