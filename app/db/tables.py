"""The tables, as SQLAlchemy Core objects; migrations/ makes them, queries.py reads and writes them.

Every statement of this service is a compare-and-set or a plain read, for which Core is the shorter
way; values leave as frozen dataclasses (records.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    false,
    text,
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC; SQLite keeps no zone, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base class calls it so
        if value is None:
            return None
        aware: datetime = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("capability", String(8), nullable=False),
    Column("lane", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("sync", Boolean, nullable=False, server_default=false()),
    Column("options", JSON, nullable=False),
    Column("request_id", String(64), nullable=False, server_default=""),
    Column("traceparent", String(55), nullable=False, server_default=""),
    Column("owner", String(40), nullable=False, server_default=""),
    # input
    Column("input_key", String(200)),
    Column("input_name", String(300), nullable=False, server_default=""),
    Column("input_bytes", BigInteger, nullable=False, server_default="0"),
    Column("input_sha256", String(64), nullable=False, server_default=""),
    Column("input_seconds", Float),
    # life
    Column("created_at", UtcDateTime, nullable=False),
    Column("enqueued_at", UtcDateTime),
    Column("run_after", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("deadline_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("losses", Integer, nullable=False, server_default="0"),
    Column("faults", Integer, nullable=False, server_default="0"),
    Column("last_loss", String(32)),
    Column("worker", String(40)),
    Column("lease_expires_at", UtcDateTime),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    Column("progress", Float, nullable=False, server_default="0"),
    # outcome
    Column("error", JSON(none_as_null=True)),
    Column("output_key", String(200)),
    Column("output_bytes", BigInteger),
    Column("output_sha256", String(64)),
    Column("model", String(200)),
    Column("metrics", JSON(none_as_null=True)),
    Column("purged_at", UtcDateTime),
    # bonds
    Column("batch_id", String(40)),
    Column("callback_url", String(2000)),
    Column("cost", Float, nullable=False, server_default="0"),
    Column("content_key", String(64)),
    # The two with a condition have it on PostgreSQL too (migrations/). To say so here would load
    # all of that one's drivers, a twentieth of the front door's start.
    Index(
        None,
        "content_key",
        sqlite_where=text("content_key IS NOT NULL"),
    ),
    Index(None, "batch_id", "state"),
    Index(None, "state", "capability", "created_at"),
    Index(None, "state", "created_at", "id"),
    Index(None, "state", "lease_expires_at"),
    Index(None, "owner", "created_at", "id"),
    Index(None, "created_at", "id"),
    Index(
        None,
        "expires_at",
        sqlite_where=text("purged_at IS NULL"),
    ),
    Index(None, "purged_at"),
    Index(None, "finished_at"),
)

windows = Table(
    "windows",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("start_sample", Integer, nullable=False),
    Column("end_sample", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("model", String(300), nullable=False, server_default=""),
    Column("transcript", JSON, nullable=False),
)

shares = Table(
    "shares",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("worker", String(40), nullable=False),
    Column("lease_expires_at", UtcDateTime, nullable=False),
    Index(None, "lease_expires_at"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Index(None, "job_id"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("run_after", UtcDateTime, nullable=False),
    Column("log", JSON, nullable=False),
    Index(None, "state", "run_after"),
    Index(None, "job_id"),
)

files = Table(
    "files",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner", String(40), nullable=False, server_default=""),
    Column("purpose", String(32), nullable=False),
    Column("filename", String(255), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("key", String(200), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index(None, "owner", "created_at", "id"),
    Index(None, "expires_at"),
)

batches = Table(
    "batches",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner", String(40), nullable=False, server_default=""),
    Column("endpoint", String(64), nullable=False),
    Column("input_file_id", String(40), nullable=False),
    Column("state", String(16), nullable=False),
    Column("completion_window", String(16), nullable=False),
    Column("metadata", JSON(none_as_null=True)),
    Column("errors", JSON(none_as_null=True)),
    # lines
    Column("total", Integer, nullable=False, server_default="0"),
    Column("completed", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("output_file_id", String(40)),
    Column("error_file_id", String(40)),
    # when it came to each state
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("in_progress_at", UtcDateTime),
    Column("finalizing_at", UtcDateTime),
    Column("completed_at", UtcDateTime),
    Column("failed_at", UtcDateTime),
    Column("expired_at", UtcDateTime),
    Column("cancelling_at", UtcDateTime),
    Column("cancelled_at", UtcDateTime),
    Index(None, "owner", "created_at", "id"),
    Index(None, "state"),
)

batch_lines = Table(
    "batch_lines",
    metadata,
    Column("batch_id", ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("custom_id", String(512)),
    Column("state", String(16), nullable=False),
    Column("body", JSON(none_as_null=True)),
    Column("job_id", String(40)),
    Column("error", JSON(none_as_null=True)),
    Index(None, "batch_id", "state", "number"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("host", String(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("models", JSON, nullable=False),
    Column("memory", JSON(none_as_null=True)),
    Column("audio_counts", JSON(none_as_null=True)),
    Index(None, "seen_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("requests_per_minute", Integer),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Index(None, "sha256", unique=True),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("owner", String(40), nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)
