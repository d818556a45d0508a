"""The SQL of API keys."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from app.db.records import ApiKey
from app.db.tables import api_keys

_KEY = [api_keys.c[field.name] for field in fields(ApiKey)]


def _key(row: Any) -> ApiKey:
    return ApiKey(**row._asdict())


def insert_key(connection: Connection, key: ApiKey) -> None:
    connection.execute(insert(api_keys).values(**asdict(key)))


def find(connection: Connection, sha256: str) -> ApiKey | None:
    """The key with this hash, unless it has been revoked."""
    query = select(*_KEY).where(api_keys.c.sha256 == sha256, api_keys.c.revoked_at.is_(None))
    row = connection.execute(query).first()
    return _key(row) if row else None


def list_keys(connection: Connection) -> list[ApiKey]:
    query = select(*_KEY).order_by(api_keys.c.created_at)
    return [_key(row) for row in connection.execute(query)]


def revoke(connection: Connection, key_id: str, now: datetime) -> bool:
    """False when there is no such key in use."""
    statement = update(api_keys).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    return connection.execute(statement.values(revoked_at=now)).rowcount == 1
