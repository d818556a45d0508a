"""The two sources of chance and time; everything else is told what time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4


def now() -> datetime:
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex}"
