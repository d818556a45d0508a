"""Getting the encoded bytes of a request's clips: base64, data URIs, files and URLs.

Every source is read against what the request may still spend, and refused before it is allocated
where its size can be told. Files are read under the media root only; URLs through a function that
the caller brings, because networks are not this package's business.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from models.base import InputRejected
from models.preprocess.cancellation import Cancelled, Checkpoint, never, poll_at
from models.preprocess.preflight import check
from models.preprocess.source import EncodedClip, SourceKind

MAX_PARTS = 16
MAX_BYTES = 524_288_000  # of a clip, and of a request
CHUNK_BYTES = 64 << 10
FORMATS = frozenset({"wav", "wave", "x-wav", "mp3", "mpeg", "mpga", "flac"})

_NAMES = {
    SourceKind.DATA_URI: "data URI",
    SourceKind.SERVER_FILE: "file",
    SourceKind.SERVER_URL: "URL",
    SourceKind.SERVER_INLINE: "inline base64",
}


class AcquisitionError(InputRejected):
    """A clip cannot be had, and the request fails with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPart:
    data: str
    """Base64, a data URI, a URL or a path."""
    format: str = "wav"


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    length: int | None
    """Bytes as announced; None where nothing was."""
    chunks: Iterator[bytes]


Fetch = Callable[[str], AbstractContextManager[Download]]
"""Opens a URL; OSError where that fails."""


def acquire(
    parts: Sequence[AudioPart],
    *,
    media_root: Path | None = None,
    fetch: Fetch | None = None,
    cancelled: Cancelled = never,
    max_bytes: int = MAX_BYTES,
) -> tuple[EncodedClip, ...]:
    if len(parts) > MAX_PARTS:
        raise AcquisitionError(f"too many audio inputs: {len(parts)}, maximum {MAX_PARTS}")
    left, clips = max_bytes, []
    for index, part in enumerate(parts):
        source = _Source(
            index=index, left=left, total=max_bytes, media_root=media_root, fetch=fetch
        )
        clip = source.acquire(part, cancelled)
        left -= len(clip.data)
        clips.append(clip)
    return tuple(clips)


def read_file(path: Path, *, clip: int, max_bytes: int, cancelled: Cancelled = never) -> bytes:
    """A file of the command line, never more than one chunk beyond the bound of a clip."""
    poll = poll_at(cancelled, Checkpoint.ACQUISITION, clip)
    data = bytearray()
    with path.open("rb") as file:
        while True:
            poll()
            chunk = file.read(CHUNK_BYTES)
            poll()
            if not chunk:
                return bytes(data)
            data += chunk
            check("encoded bytes per clip", len(data), max_bytes)


@dataclass(slots=True)
class _Source:
    """One clip on its way."""

    index: int
    left: int
    """Bytes that the request may still spend."""
    total: int
    media_root: Path | None
    fetch: Fetch | None
    kind: SourceKind = field(default=SourceKind.SERVER_INLINE, init=False)

    def acquire(self, part: AudioPart, cancelled: Cancelled) -> EncodedClip:
        wanted = part.format.lower()
        if wanted not in FORMATS:
            raise self._refused(f"uses unsupported format {part.format}; only wav is supported")
        data = self._read(part.data, cancelled)
        if not data:
            raise self._refused("resolved to an empty payload")
        return EncodedClip(data=data, kind=self.kind, placeholder_ordinal=self.index + 1)

    def _read(self, text: str, cancelled: Cancelled) -> bytes:
        head, comma, payload = text.partition(",")
        if comma and head.lower().startswith("data:audio/") and head.lower().endswith(";base64"):
            self.kind = SourceKind.DATA_URI
            return self._decode(payload)
        if text.startswith("file://"):
            return self._file(unquote(urlsplit(text).path), cancelled)
        if text.startswith(("http://", "https://")):
            return self._url(text, cancelled)
        if self.media_root is not None and "://" not in text and self._is_path(text):
            return self._file(text, cancelled)
        return self._decode(text)

    def _decode(self, text: str) -> bytes:
        most = 4 * -(-self.left // 3)
        if len(text) > most:
            raise self._refused(
                f"base64 input is too large: {len(text)} encoded characters, maximum {most}"
            )
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._failed(f"invalid base64: {error}") from error
        self._check(len(data))
        return data

    def _is_path(self, text: str) -> bool:
        """Whether a bare text names a file, since base64 is written with the same letters."""
        try:
            return self._under_root(text).is_file()
        except (OSError, ValueError):
            return False

    def _file(self, text: str, cancelled: Cancelled) -> bytes:
        self.kind = SourceKind.SERVER_FILE
        if self.media_root is None:
            raise self._failed("no media path is set")
        try:
            path = self._under_root(text)
            if not path.is_file():  # nor is a pipe, which would never end
                raise self._failed("no such file")
            self._check(path.stat().st_size)
            with path.open("rb") as file:
                return self._chunks(_read_chunks(file), cancelled)
        except (OSError, ValueError) as error:
            raise self._failed(_why(error)) from error

    def _under_root(self, text: str) -> Path:
        root = (self.media_root or Path()).resolve()
        path = (root / text).resolve()
        if not path.is_relative_to(root):
            raise ValueError("outside the media path")
        return path

    def _url(self, url: str, cancelled: Cancelled) -> bytes:
        self.kind = SourceKind.SERVER_URL
        if self.fetch is None:
            raise self._failed("URLs are not enabled")
        try:
            with self.fetch(url) as download:
                if download.length is not None:
                    self._check(download.length)
                return self._chunks(download.chunks, cancelled)
        except OSError as error:
            raise self._failed(_why(error)) from error

    def _chunks(self, chunks: Iterator[bytes], cancelled: Cancelled) -> bytes:
        data = bytearray()
        self._poll(cancelled, 0)
        for chunk in chunks:
            self._poll(cancelled, len(data))
            self._check(len(data) + len(chunk))
            data += chunk
        self._poll(cancelled, len(data))
        return bytes(data)

    def _check(self, size: int) -> None:
        if size > self.total:
            raise self._refused(
                f"exceeds the encoded byte limit: {size} bytes, maximum {self.total}"
            )
        if size > self.left:
            spent = self.total - self.left
            raise AcquisitionError(
                "audio request exceeds the aggregate encoded byte limit: "
                f"{spent + size} bytes, maximum {self.total}"
            )

    def _poll(self, cancelled: Cancelled, done: int) -> None:
        if cancelled():
            name = _NAMES[self.kind]
            raise self._refused(f"acquisition from {name} was cancelled after {done} bytes")

    def _failed(self, reason: str) -> AcquisitionError:
        return self._refused(f"acquisition from {_NAMES[self.kind]} failed: {reason}")

    def _refused(self, text: str) -> AcquisitionError:
        return AcquisitionError(f"audio clip {self.index} {text}")


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _why(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
