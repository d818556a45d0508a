"""The SQL of files."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import Connection, and_, delete, insert, or_, select

from app.db.records import File
from app.db.tables import files

_FILE = [files.c[field.name] for field in fields(File)]


def insert_file(connection: Connection, file: File) -> None:
    connection.execute(insert(files).values(**asdict(file)))


def get_file(connection: Connection, file_id: str) -> File | None:
    row = connection.execute(select(*_FILE).where(files.c.id == file_id)).first()
    return File(**row._asdict()) if row else None


def delete_file(connection: Connection, file_id: str) -> None:
    connection.execute(delete(files).where(files.c.id == file_id))


def list_files(
    connection: Connection,
    *,
    owner: str,
    purpose: str | None,
    after: File | None,
    oldest_first: bool,
    limit: int,
) -> list[File]:
    """``after`` is the last file of the page before; an empty owner means anybody's."""
    moment, id_ = files.c.created_at, files.c.id
    order = [moment.asc(), id_.asc()] if oldest_first else [moment.desc(), id_.desc()]
    query = select(*_FILE).order_by(*order).limit(limit)
    if owner:
        query = query.where(files.c.owner == owner)
    if purpose:
        query = query.where(files.c.purpose == purpose)
    if after:
        same = moment == after.created_at
        beyond = (
            or_(moment > after.created_at, and_(same, id_ > after.id))
            if oldest_first
            else or_(moment < after.created_at, and_(same, id_ < after.id))
        )
        query = query.where(beyond)
    return [File(**row._asdict()) for row in connection.execute(query)]


def expired(connection: Connection, now: datetime, *, limit: int = 100) -> list[File]:
    query = select(*_FILE).where(files.c.expires_at < now).limit(limit)
    return [File(**row._asdict()) for row in connection.execute(query)]
