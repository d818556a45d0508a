"""What a blob store is: a few methods over keys. A blob is written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    key: str
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBlob:
    key: str
    modified_at: datetime
    """Aware, in UTC."""
    size: int
    """Bytes."""


class StorageError(RuntimeError):
    """The blob store failed; the same call may succeed later."""


class BlobStore(Protocol):
    def check(self) -> None:
        """Raise StorageError, which says what to do, unless the store can be used."""
        ...

    def put(
        self, key: str, file: BinaryIO, *, content_type: str, durable: bool = True
    ) -> StoredBlob:
        """Store a seekable file from its position to its end, replacing what was there.

        One that is not ``durable`` need not survive a power cut, which may be quicker.
        """
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A seekable file; FileNotFoundError when there is no such blob."""
        ...

    def delete(self, key: str) -> None:
        """Delete the blob if it is there."""
        ...

    def list(self, prefix: str) -> Iterator[ListedBlob]:
        """Every blob whose key starts with the prefix, which ends with a slash."""
        ...

    def url(
        self, key: str, *, seconds: int, content_type: str = "", disposition: str = ""
    ) -> str | None:
        """An address that serves the blob for so long, where the store can give one.

        Its answers have those headers instead of what the blob was stored with.
        """
        ...
