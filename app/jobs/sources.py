"""Where the recording of a batch line is: an uploaded file, an object in S3, a web address."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from app.db import files as rows
from app.errors import BadRequest, Gone
from app.jobs.fetch import Bounds, fetch
from app.jobs.services import Services
from app.jobs.submit import Upload
from app.settings import Settings

SPOOL_BYTES = 8 << 20  # of a recording kept in memory before it goes to a temporary file
S3 = "s3://"


@contextmanager
def opened(
    services: Services, source: str, *, owner: str, check: Callable[[], None]
) -> Iterator[Upload]:
    """Raises BadRequest, or StorageError where another try may help."""
    if source.startswith("file-"):
        with _uploaded(services, source, owner) as upload:
            yield upload
    elif source.startswith(S3):
        with _object(services.settings, source) as upload:
            yield upload
    elif source.startswith(("http://", "https://")):
        with _fetched(services.settings, source, check) as upload:
            yield upload
    else:
        raise BadRequest(
            "the source must be the id of a file, s3://bucket/key or an http(s) URL", param="file"
        )


@contextmanager
def _uploaded(services: Services, file_id: str, owner: str) -> Iterator[Upload]:
    with services.database.reading() as connection:
        found = rows.get_file(connection, file_id)
    if found is None or (owner and found.owner != owner):
        raise BadRequest(f"No such file: {file_id[:40]}", param="file")
    try:
        with services.store.open(found.key) as file:
            yield Upload(file=file, size=found.bytes, name=found.filename)
    except FileNotFoundError:
        raise Gone("The file has been deleted.") from None


@contextmanager
def _object(settings: Settings, url: str) -> Iterator[Upload]:
    """Only below the places that the operator has opened: they are read with its credentials."""
    from app.storage.s3 import S3Location, S3Store

    places = [item.strip() for item in settings.source_s3.split(",") if item.strip()]
    for location in map(S3Location.parse, places):
        below = f"{S3}{location.bucket}/{location.prefix}"
        if url.startswith(below) and len(url) > len(below):
            store, key = S3Store(location), url.removeprefix(below)
            break
    else:
        raise BadRequest("this place in S3 is not opened here (source_s3)", param="file")
    try:
        size = next((blob.size for blob in store.list(key) if blob.key == key), None)
        if size is None:
            raise BadRequest(f"no such object: {url[:200]}", param="file")
        if size > settings.batch_max_bytes:
            raise BadRequest(f"longer than {settings.batch_max_bytes} bytes", param="file")
        with store.open(key) as file:
            yield Upload(file=file, size=size, name=key.rpartition("/")[2])
    except (ValueError, FileNotFoundError) as error:
        raise BadRequest(f"cannot read {url[:200]}: {error}", param="file") from error


@contextmanager
def _fetched(settings: Settings, url: str, check: Callable[[], None]) -> Iterator[Upload]:
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        file = cast("BinaryIO", spool)
        bounds = Bounds(
            seconds=settings.source_timeout_seconds,
            max_bytes=settings.batch_max_bytes,
            allow=settings.source_allow,
            check=check,
        )
        fetch(url, file, bounds)
        size = file.seek(0, io.SEEK_END)
        name = url.partition("?")[0].rpartition("/")[2]
        yield Upload(file=file, size=size, name=name)
