"""The SQL of idempotency keys: each names one job for as long as that job is kept."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from app.db.records import IdempotencyKey
from app.db.tables import idempotency_keys as keys


def find(connection: Connection, key: IdempotencyKey) -> tuple[str, str] | None:
    """The job that has the key, and the fingerprint that it was given with."""
    query = select(keys.c.job_id, keys.c.fingerprint).where(
        keys.c.owner == key.owner, keys.c.key == key.key
    )
    row = connection.execute(query).first()
    return (row.job_id, row.fingerprint) if row else None


def insert_key(connection: Connection, key: IdempotencyKey, job_id: str) -> None:
    connection.execute(insert(keys).values(**asdict(key), job_id=job_id))


def forget_keys(connection: Connection, job_id: str) -> None:
    connection.execute(delete(keys).where(keys.c.job_id == job_id))
