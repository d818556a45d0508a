"""Reads a multipart form as it arrives: bounded, spooled to disk, and no further than it must.

Knows parts, names and sizes; which fields mean what is the routes' business.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from app.errors import BadRequest, RequestTimeout, TooLarge

SPOOL_BYTES = 1 << 20  # of an upload kept in memory before it goes to a temporary file
# RFC 5987; forms ought not to use it (RFC 7578), but some clients do.
_EXTENDED_NAME = re.compile(
    r";\s*filename\*\s*=\s*\"?[\w-]*'[\w-]*'([^;\"]*)", re.ASCII | re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(slots=True)
class FilePart:
    name: str
    """As the client called the file."""
    file: BinaryIO
    size: int = 0


@dataclass(slots=True)
class Form:
    """Text values by field name, and the file of the one wanted name."""

    texts: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    file: FilePart | None = None

    def once(self, name: str) -> str | None:
        """The value of a field given exactly once: a repeated one counts as absent."""
        values = self.texts.get(name, [])
        return values[0] if len(values) == 1 else None

    def last(self, name: str) -> str | None:
        values = self.texts.get(name, [])
        return values[-1] if values else None

    def close(self) -> None:
        if self.file:
            self.file.file.close()


def invalid(reason: str) -> BadRequest:
    return BadRequest(f"invalid multipart form-data: {reason}")


@asynccontextmanager
async def read_form(
    request: Request,
    *,
    max_bytes: int,
    max_parts: int,
    max_seconds: float,
    texts: frozenset[str],
    file_by_name: bool = False,
    max_text_bytes: int | None = None,
) -> AsyncIterator[Form]:
    """The form, whose file is closed on leaving.

    ``texts``: the text fields that are kept; others are read past.
    ``max_text_bytes``: of one text field, where the whole form may be far larger than memory.
    ``file_by_name``: a part called ``file`` is the file even without a filename.
    Raises TooLarge as soon as the body passes ``max_bytes``, whatever Content-Length says, and
    RequestTimeout when it takes longer than ``max_seconds`` to arrive.
    """
    reader = _Reader(
        _boundary(request),
        max_parts=max_parts,
        texts=texts,
        file_by_name=file_by_name,
        max_text_bytes=max_text_bytes or max_bytes,
    )
    try:
        async with _time_limit(max_seconds):
            async for chunk in bounded_body(request, max_bytes):
                reader.feed(chunk)
        yield reader.finish()
    finally:
        reader.form.close()


async def read_body(request: Request, *, max_bytes: int, max_seconds: float) -> bytes:
    body = bytearray()
    async with _time_limit(max_seconds):
        async for chunk in bounded_body(request, max_bytes):
            body += chunk
    return bytes(body)


async def bounded_body(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise TooLarge(headers={"Connection": "close"})
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise TooLarge
        yield chunk


@asynccontextmanager
async def _time_limit(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise RequestTimeout from None


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise invalid("Content-Type is not multipart/form-data")
    if not options.get(b"boundary"):
        raise invalid("Content-Type has no boundary")
    return options[b"boundary"]


class _Reader:
    """Feeds python-multipart and keeps what its callbacks say."""

    def __init__(
        self,
        boundary: bytes,
        *,
        max_parts: int,
        texts: frozenset[str],
        file_by_name: bool,
        max_text_bytes: int,
    ) -> None:
        self.form = Form()
        self._max_parts = max_parts
        self._texts = texts
        self._file_by_name = file_by_name
        self._max_text_bytes = max_text_bytes
        self._parts = 0
        self._ended = False
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._field = ""
        self._target: FilePart | bytearray | None = None
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_text,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": self._data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise invalid(str(error)) from None

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise invalid(str(error)) from None

    def finish(self) -> Form:
        if not self._ended:
            raise invalid("the body ends before its closing boundary")
        return self.form

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > self._max_parts:
            raise BadRequest(f"multipart form has more than {self._max_parts} parts")
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _header_text(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._headers[bytes(self._header_name).lower()] = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _open_part(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"")
        kind, options = parse_options_header(disposition)
        if kind != b"form-data" or b"name" not in options:
            raise invalid("a part has no Content-Disposition with a name")
        self._field = _text(options[b"name"], "a field name")
        filename = _filename(disposition, options)
        is_file = filename is not None or (self._file_by_name and self._field == "file")
        if is_file:
            # A file under another name is read past.
            self._target = self._open_file(filename or "") if self._field == "file" else None
        else:
            self._target = bytearray() if self._field in self._texts else None

    def _open_file(self, name: str) -> FilePart:
        self.form.close()
        spool = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - Form.close does it
        self.form.file = FilePart(name=name, file=cast("BinaryIO", spool))
        return self.form.file

    def _data(self, data: bytes, start: int, end: int) -> None:
        if isinstance(self._target, FilePart):
            self._target.file.write(data[start:end])
            self._target.size += end - start
        elif self._target is not None:
            if len(self._target) + end - start > self._max_text_bytes:
                raise TooLarge(param=self._field)
            self._target += data[start:end]

    def _end_part(self) -> None:
        if isinstance(self._target, bytearray):
            value = _text(bytes(self._target), f"field '{self._field}'")
            self.form.texts[self._field].append(value)

    def _end(self) -> None:
        self._ended = True


def _filename(disposition: bytes, options: dict[bytes, bytes]) -> str | None:
    """The last part of the name, to show to people; None when the part has none."""
    if b"filename" in options:
        name = options[b"filename"].decode(errors="replace")
    elif extended := _EXTENDED_NAME.search(disposition.decode("latin-1")):
        name = unquote(extended[1], errors="replace")
    else:
        return None
    return _CONTROLS.sub("", name.replace("\\", "/").rsplit("/", 1)[-1])


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise invalid(f"{what} is not UTF-8") from None
