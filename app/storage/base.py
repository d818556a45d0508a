"""What a blob store is: four methods over keys. A blob is written whole or not at all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    key: str
    size: int
    """Bytes."""
    sha256: str


class StorageError(RuntimeError):
    """The blob store failed; the same call may succeed later."""


class BlobStore(Protocol):
    def put(self, key: str, file: BinaryIO, *, content_type: str) -> StoredBlob:
        """Store the file from its position to its end, replacing what was there."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A seekable file; FileNotFoundError when there is no such blob."""
        ...

    def delete(self, key: str) -> None:
        """Delete the blob if it is there."""
        ...

    def url(self, key: str, *, seconds: int) -> str | None:
        """An address that serves the blob for so long, where the store can give one."""
        ...
