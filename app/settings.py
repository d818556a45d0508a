"""Every setting with its default and unit, read once from ``VOXQUEUE_…`` variables.

The defaults need no server: SQLite, a directory and an embedded broker, all below ``data_dir``.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.states import Kind, Lane

PREFIX = "VOXQUEUE_"
DEFAULT_TIMEOUT_SECONDS = 120.0
BROKERS = ("redis", "rediss", "redis+socket")
DATABASES = ("sqlite", "postgresql+psycopg")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,  # a URL may hold a password
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    data_dir: Path = Path("data")
    database_url: str = ""
    """Empty: SQLite in the data directory."""
    broker_url: str = ""
    """Empty: the embedded Valkey that ``voxqueue serve`` starts in the data directory."""
    broker_prefix: str = "voxqueue:"
    """Set before every key, so that several installations can share one Valkey."""
    broker_visibility_seconds: PositiveInt = 86_400
    """After so long a message that nobody acknowledged is delivered again. It must be longer than
    any task; recovery does not depend on it (see ``lease_seconds``)."""
    broker_restore_seconds: PositiveInt = 100
    """How often a worker looks for such messages."""
    storage_url: str = ""
    """Empty: a directory in the data directory."""
    presigned_seconds: Annotated[int, Field(ge=0, le=604_800)] = 0
    """Speech and files on S3 are answered with a redirect to an address there that lasts so long;
    0: they come through the front door."""

    auth: Literal["auto", "on", "off"] = "auto"
    """Whether callers need an API key. ``auto``: unless only this machine reaches ``host``."""
    requests_per_minute: NonNegativeInt = 0
    """Of each API key that has no limit of its own; 0: any number."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    stt_model: str = "whisper-base"
    """Catalogue name or directory; empty: none."""
    tts_model: str = "kokoro-82m"
    chat_model: str = ""
    """Directory of a chat model that hears (docs/chat-models.md), which transcribes in place
    of ``stt_model``; that one then does translations. All workers must be configured alike."""

    audio_queue_depth: int = 8
    """Synchronous requests that may wait behind those in flight; 0 means 1."""
    audio_request_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """0 means the default."""
    upload_timeout_seconds: PositiveFloat = 120.0
    """How long a request body may take to arrive."""
    max_upload_bytes: PositiveInt = 26_214_400
    max_audio_seconds: PositiveInt = 600

    batch_max_bytes: PositiveInt = 4 << 30
    """Of a recording for the bulk lane, or a file of batch requests."""
    batch_max_seconds: PositiveInt = 172_800
    """Of audio in a recording for the bulk lane."""
    batch_max_characters: PositiveInt = 100_000
    """Of one text to be spoken on the bulk lane; a longer one is refused, not cut."""
    batch_max_lines: PositiveInt = 50_000
    batch_in_flight: PositiveInt = 64
    """Lines of one batch that are jobs in the queue at the same time."""
    batch_upload_timeout_seconds: PositiveFloat = 3600.0
    """How long the body of a bulk request or a file may take to arrive."""
    file_retention_seconds: PositiveFloat = 30 * 86_400.0
    """How long uploaded files and the outputs of batches are kept."""
    source_allow: str = ""
    """Hosts and networks, by commas, that the sources of batch lines may be on although they are
    not public."""
    source_s3: str = ""
    """Places, by commas, that batch lines may name as ``s3://bucket/key``: each is written as in
    ``storage_url`` and opens what lies below it. Empty: none, since they are read with the
    service's own credentials."""
    source_timeout_seconds: PositiveFloat = 300.0
    """How long fetching one source may take."""

    heartbeat_seconds: PositiveFloat = 2.0
    worker_stale_seconds: PositiveFloat = 10.0
    """A worker that has not been seen for this long is not counted as live."""
    lease_seconds: PositiveFloat = 20.0
    """A running job whose lease was not renewed for this long is given to another worker."""
    sweep_seconds: PositiveFloat = 2.0
    resend_seconds: PositiveFloat = 5.0
    """When the broker has fewer messages than there are queued jobs, those whose message is older
    than this are rung for again: duplicates are harmless."""
    max_attempts: PositiveInt = 3
    """Attempts that may end with the death of their worker before the job is given up."""
    max_faulty_attempts: PositiveInt = 10
    """The same for a failing store or database; they come with growing pauses, minutes in all."""
    worker_max_memory_bytes: NonNegativeInt = 0
    """A worker whose resident memory is larger after a job ends and is started anew; 0: any."""
    mlx_cache_bytes: NonNegativeInt = 256 << 20
    """Of freed arrays that MLX may keep from one job to the next."""
    stuck_seconds: PositiveFloat = 1800.0
    """An attempt that reaches no checkpoint for so long is taken for hung: the job is given to
    another worker and this one is ended, for its supervisor to start it anew."""
    queue_expiry_seconds: PositiveFloat = 7 * 86_400.0
    """A job that no worker has taken by then has expired."""
    window_batch: PositiveInt = 8
    """Windows in one model call, and so the grain of cancelling, draining, pre-emption and of
    sharing a recording with idle workers."""
    retention_seconds: PositiveFloat = 7 * 86_400.0
    """How long the blobs of a finished job are kept."""
    speech_retention_seconds: NonNegativeFloat = 0.0
    """The same for speech; 0: ``retention_seconds``."""
    transcript_retention_seconds: NonNegativeFloat = 0.0
    """The same for transcriptions and translations; 0: ``retention_seconds``."""
    tombstone_seconds: PositiveFloat = 7 * 86_400.0
    """How long a job without its blobs still answers, with a 410."""
    orphan_seconds: PositiveFloat = 3600.0
    """A blob of this age that belongs to no job is deleted."""
    orphan_round_seconds: PositiveFloat = 600.0
    """Between two looks at every blob there is, for such ones."""
    keep_inputs: bool = True
    """False: an upload is deleted as soon as its job has succeeded."""

    webhook_secret: str = ""
    """``whsec_`` and Base64, as the Standard Webhooks specification has it. Empty: one is made and
    kept in ``webhook-secret`` in the data directory."""
    webhook_allow: str = ""
    """Hosts and networks, by commas, that callbacks may reach although they are not public."""
    webhook_timeout_seconds: PositiveFloat = 10.0
    webhook_backoff_seconds: PositiveFloat = 5.0
    """Before the second attempt; four times as long before each later one."""
    webhook_attempts: PositiveInt = 8

    @field_validator("data_dir")
    @classmethod
    def _data_dir(cls, value: Path) -> Path:
        if "?" in str(value.absolute()):
            msg = f"{value.absolute()}: a database's URL ends at '?', so rename that directory"
            raise ValueError(msg)
        return value

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: str) -> str:
        if value and value.partition("://")[0] not in DATABASES:
            msg = "use sqlite:///file or postgresql+psycopg://user:password@host/database"
            raise ValueError(msg)
        return value

    @field_validator("broker_url")
    @classmethod
    def _broker(cls, value: str) -> str:
        scheme = value.partition("://")[0]
        if scheme in ("amqp", "amqps", "pyamqp"):
            msg = (
                "RabbitMQ cannot serve here: waiting callers are woken through publish/subscribe "
                "and workers read their queues strictly in order, which Celery offers on Redis "
                "and Valkey only; use redis:// or rediss://"
            )
            raise ValueError(msg)
        if value and scheme not in BROKERS:
            msg = f"use one of {', '.join(f'{known}://' for known in BROKERS)}"
            raise ValueError(msg)
        return value

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
    def asks_for_keys(self) -> bool:
        return self.auth == "on" or (self.auth == "auto" and not is_loopback(self.host))

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'db.sqlite'}"

    @property
    def storage_dir(self) -> Path:
        return self.data_dir.absolute() / "blobs"

    def max_seconds(self, lane: Lane) -> int:
        """Of audio in one recording."""
        return self.batch_max_seconds if lane is Lane.BULK else self.max_audio_seconds

    def max_bytes(self, lane: Lane) -> int:
        """Of one recording."""
        return self.batch_max_bytes if lane is Lane.BULK else self.max_upload_bytes

    def expiry(self, finished_at: datetime, kind: Kind) -> datetime:
        """When the blobs of a job that ended then are deleted."""
        is_speech = kind is Kind.SPEECH
        own = self.speech_retention_seconds if is_speech else self.transcript_retention_seconds
        return finished_at + timedelta(seconds=own or self.retention_seconds)

    def with_changes(self, **changes: object) -> Self:
        """A copy with the given values validated; None leaves a value as it is."""
        given = {key: value for key, value in changes.items() if value is not None}
        return type(self)(**{**self.model_dump(), **given})

    def to_env(self) -> dict[str, str]:
        """The same settings as environment variables, for child processes."""
        return {f"{PREFIX}{key.upper()}": str(value) for key, value in self.model_dump().items()}
