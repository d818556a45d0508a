"""The lines of a batch file: what each asks for, or what is wrong with it.

A line at fault is that line's error; the others go on. What a request's body may hold is the
endpoint's business, which is handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from app.db.records import BatchLine
from app.errors import BadRequest, ServiceError
from app.jobs.errors import from_service_error
from app.settings import Settings
from app.states import Kind, LineState

CUSTOM_ID_CHARACTERS = 512
SPARE_BYTES = 1 << 16  # of a line, beside the longest text


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRequest:
    """What a body asks for, checked."""

    kind: Kind
    options: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    """Of the recording; None for speech."""


Read = Callable[[Settings, str, dict[str, Any]], LineRequest]
"""Of an endpoint and a body; raises BadRequest."""


class TooManyLines(Exception):
    """The file has more lines than a batch may have."""


def parse(file: BinaryIO, endpoint: str, settings: Settings, read: Read) -> Iterator[BatchLine]:
    """One for each line that is not blank. Raises TooManyLines."""
    longest = 4 * settings.batch_max_characters + SPARE_BYTES
    seen: set[str] = set()
    number = 0
    for text in _lines(file, longest):
        if text is not None and not text.strip():
            continue
        number += 1
        if number > settings.batch_max_lines:
            raise TooManyLines
        yield _line(number, text, endpoint, settings, read, seen)


def _lines(file: BinaryIO, longest: int) -> Iterator[bytes | None]:
    """None for a line that is too long to be read."""
    while line := file.readline(longest):
        if line.endswith(b"\n") or len(line) < longest:
            yield line
            continue
        while (rest := file.readline(longest)) and not rest.endswith(b"\n"):
            pass
        yield None


def _line(  # noqa: PLR0917 - one caller, above
    number: int,
    text: bytes | None,
    endpoint: str,
    settings: Settings,
    read: Read,
    seen: set[str],
) -> BatchLine:
    custom_id: str | None = None
    try:
        values = _object(text)
        custom_id = _custom_id(values, seen)
        body = _body(values, endpoint)
        read(settings, endpoint, body)
    except ServiceError as error:
        problem = from_service_error(error) | {"code": error.code or "invalid_request"}
        return BatchLine(number=number, custom_id=custom_id, state=LineState.FAILED, error=problem)
    return BatchLine(number=number, custom_id=custom_id, body=body)


def _object(text: bytes | None) -> dict[str, Any]:
    if text is None:
        raise BadRequest("the line is too long")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the line is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise BadRequest("the line is not a JSON object")
    return values


def _custom_id(values: dict[str, Any], seen: set[str]) -> str:
    given = values.get("custom_id")
    if not isinstance(given, str) or not 0 < len(given) <= CUSTOM_ID_CHARACTERS:
        raise BadRequest(
            f"'custom_id' must be a text of 1 to {CUSTOM_ID_CHARACTERS} characters",
            param="custom_id",
        )
    if given in seen:
        raise BadRequest(f"the custom_id {given!r} is used twice", param="custom_id")
    seen.add(given)
    return given


def _body(values: dict[str, Any], endpoint: str) -> dict[str, Any]:
    if values.get("method") != "POST":
        raise BadRequest("'method' must be POST", param="method")
    if values.get("url") != endpoint:
        raise BadRequest(f"'url' must be the endpoint of the batch, {endpoint}", param="url")
    body = values.get("body")
    if not isinstance(body, dict):
        raise BadRequest("'body' must be an object", param="body")
    return body
