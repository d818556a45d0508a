"""Recordings in an S3 bucket, read with the credentials of whoever runs the command.

``s3://bucket/prefix?endpoint=…`` as in ``VOXQUEUE_STORAGE_URL``: everything below the prefix, or
the one object of that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import BinaryIO

from app.archive.items import (
    HEAD_BYTES,
    S3,
    Item,
    failed,
    is_named_audio,
    look_at_head,
    refusal,
    skipped,
)
from app.storage.base import ListedBlob, StorageError
from app.storage.s3 import S3Location, S3Store


@dataclass(frozen=True, slots=True)
class ObjectSource:
    store: S3Store
    key: str

    def open(self) -> AbstractContextManager[BinaryIO]:
        return self.store.open(self.key)


def object_items(url: str, *, prefix: str, hidden: bool) -> Iterator[Item]:
    try:
        location = S3Location.parse(url)
        store = _store(location)
        found = False
        for blob in store.list(""):
            found = True
            if not blob.key.endswith("/"):
                yield _item(location, store, blob, prefix=prefix, hidden=hidden)
        if not found:
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
    item = _taken(id_, PurePosixPath(prefix, blob.key), store, blob)
    if item.seconds is None and not is_named_audio(blob.key):
        return skipped(id_, "not a recording", blob.key)
    return item


def _taken(id_: str, name: PurePosixPath, store: S3Store, blob: ListedBlob) -> Item:
    geometry = look_at_head(store.head(blob.key, HEAD_BYTES), blob.size)
    return Item(
        id=id_,
        name=name,
        source=ObjectSource(store, blob.key),
        size=blob.size,
        version=blob.modified_at.isoformat(),
        seconds=geometry.duration_seconds if geometry else None,
    )
