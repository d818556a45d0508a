"""A blob store in a directory: write to a temporary file, fsync, rename."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from app.storage.base import ListedBlob, StorageError, StoredBlob

CHUNK = 1 << 20  # bytes copied at a time


class LocalStore:
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._incoming = self.root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        if not os.access(self._incoming, os.R_OK | os.W_OK | os.X_OK):
            raise StorageError(f"the blob directory {self.root} is gone or may not be written")

    def put(
        self,
        key: str,
        file: BinaryIO,
        *,
        content_type: str,  # noqa: ARG002 - part of BlobStore; a directory keeps no types
        durable: bool = True,
    ) -> StoredBlob:
        target = self._path(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return self._write(key, file, target, durable=durable)
        except OSError as error:
            raise StorageError(f"cannot store {key}: {error.strerror}") from error

    def _write(self, key: str, file: BinaryIO, target: Path, *, durable: bool) -> StoredBlob:
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self._incoming, delete=False) as out:
            try:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
                out.flush()
                if durable:
                    os.fsync(out.fileno())
                Path(out.name).replace(target)
            except BaseException:
                Path(out.name).unlink(missing_ok=True)
                raise
        if durable:
            _fsync_directory(target.parent)
        return StoredBlob(key=key, size=size, sha256=digest.hexdigest())

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with self._path(key).open("rb") as file:
            yield file

    def delete(self, key: str) -> None:
        path = self._path(key)
        path.unlink(missing_ok=True)
        for parent in path.parents:  # empty folders of the key go with their last blob
            if parent == self.root:
                break
            try:
                parent.rmdir()
            except FileNotFoundError:
                continue  # gone with an earlier delete
            except OSError:
                break  # not empty

    def list(self, prefix: str) -> Iterator[ListedBlob]:
        root, folder = self.root.resolve(), self._path(prefix)
        for place, _, names in os.walk(folder):
            for name in names:
                path = Path(place) / name
                try:
                    facts = path.stat()
                except FileNotFoundError:
                    continue  # deleted since
                yield ListedBlob(
                    key=path.relative_to(root).as_posix(),
                    modified_at=datetime.fromtimestamp(facts.st_mtime, UTC),
                    size=facts.st_size,
                )

    def url(self, key: str, **_answers: int | str) -> str | None:  # noqa: ARG002 - part of BlobStore; the front door serves local blobs itself
        return None

    def clear_incoming(self) -> None:
        """Drop what writers that died have left; call it before any writer starts."""
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        path = (self.root / key).resolve()
        if not path.is_relative_to(self.root.resolve()) or path == self.root:
            raise ValueError(f"blob key {key!r} leaves the store")
        return path


def _fsync_directory(path: Path) -> None:
    """Make the rename itself durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
