"""Recordings in an S3 bucket, read with the credentials of whoever runs the command.

``s3://bucket/prefix?endpoint=…`` as in ``VOXQUEUE_STORAGE_URL``: everything below the prefix, or
the one object of that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import PurePosixPath
from typing import BinaryIO

from app.archive.items import (
    HEAD_BYTES,
    S3,
    Item,
    Unreadable,
    failed,
    is_named_audio,
    look_at_head,
    refusal,
    skipped,
)
from app.storage.base import ListedBlob, StorageError
from app.storage.s3 import S3Location, S3Store

LOOKS_AT_ONCE = 16  # at the heads of objects, each a trip to the server


@dataclass(frozen=True, slots=True)
class ObjectSource:
    store: S3Store
    key: str

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with ExitStack() as opened:
            try:
                file = opened.enter_context(self.store.open(self.key))
            except StorageError as error:
                raise Unreadable(str(error)) from error
            yield file


def object_items(url: str, *, prefix: str, hidden: bool) -> Iterator[Item]:
    try:
        location = S3Location.parse(url)
        store = _store(location)
        blobs = list(store.list(""))
        look = partial(_item, location, store, prefix=prefix, hidden=hidden)
        with ThreadPoolExecutor(LOOKS_AT_ONCE, "objects") as pool:
            yield from pool.map(look, (blob for blob in blobs if not blob.key.endswith("/")))
        if not blobs:
            yield object_item(url)
    except (StorageError, ValueError) as error:
        yield failed(url, str(error))


def object_item(url: str) -> Item:
    """The object of this very name."""
    try:
        location = S3Location.parse(url)
        key = location.prefix.rstrip("/")
        store = _store(replace(location, prefix=""))
        blob = next((blob for blob in store.list(key) if blob.key == key), None)
        if blob is None:
            return failed(url, "no such object")
        return _taken(url, PurePosixPath(PurePosixPath(key).name), store, blob)
    except (StorageError, ValueError) as error:
        return failed(url, str(error))


@cache
def _store(location: S3Location) -> S3Store:
    return S3Store(location)


def _item(
    location: S3Location, store: S3Store, blob: ListedBlob, *, prefix: str, hidden: bool
) -> Item:
    id_ = f"{S3}{location.bucket}/{location.prefix}{blob.key}"
    if refused := refusal(id_, blob.key, hidden=hidden):
        return refused
    try:
        item = _taken(id_, PurePosixPath(prefix, blob.key), store, blob)
    except (StorageError, ValueError) as error:
        return failed(id_, str(error), blob.key)
    if item.seconds is None and not is_named_audio(blob.key):
        return skipped(id_, "not a recording", blob.key)
    return item


def _taken(id_: str, name: PurePosixPath, store: S3Store, blob: ListedBlob) -> Item:
    head = store.head(blob.key, HEAD_BYTES) if blob.size else b""
    geometry = look_at_head(head, blob.size)
    return Item(
        id=id_,
        name=name,
        source=ObjectSource(store, blob.key),
        size=blob.size,
        version=blob.modified_at.isoformat(),
        seconds=geometry.duration_seconds if geometry else None,
    )
