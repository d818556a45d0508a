"""Where recordings, speech and transcripts lie. Knows keys and bytes, nothing of jobs."""

from __future__ import annotations

from pathlib import Path

from app.storage.base import BlobStore, ListedBlob, StorageError, StoredBlob
from app.storage.local import LocalStore

__all__ = ["BlobStore", "ListedBlob", "LocalStore", "StorageError", "StoredBlob", "open_store"]


def open_store(url: str, default_dir: Path) -> BlobStore:
    """The store that a URL names; an empty one means the default directory."""
    if not url:
        return LocalStore(default_dir)
    if url.startswith("file://"):
        return LocalStore(Path(url.removeprefix("file://")))
    if url.startswith("s3://"):
        from app.storage.s3 import S3Location, S3Store

        return S3Store(S3Location.parse(url))
    raise ValueError("storage_url is not supported: use file:///directory or s3://bucket/prefix")
