"""A stored blob as a response: whole, in part or not at all (RFC 9110, sections 13 and 14).

A blob never changes, so its SHA-256 is its entity tag. With ``presigned_seconds`` a store that can
serve it itself is asked to: clients leave their key behind on the way to another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from app.api import head
from app.api.errors import error_response
from app.errors import BadRequest, Gone
from app.jobs.services import Services
from app.storage import BlobStore

CHUNK = 1 << 18  # bytes sent at a time
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def respond(
    services: Services,
    key: str,
    *,
    size: int,
    sha256: str,
    request: Request,
    media_type: str,
    disposition: str = "",
) -> Response:
    tag, asked = f'"{sha256}"', request.headers
    base = {"ETag": tag, "Accept-Ranges": "bytes", "Cache-Control": "private"}
    if disposition:
        base["Content-Disposition"] = disposition
    if _matches(asked.get("if-none-match"), tag):
        return Response(status_code=304, headers=base)
    if address := _address(services, key, request, media_type, disposition):
        return RedirectResponse(address)
    wanted = asked.get("range") if asked.get("if-range", tag) == tag else None
    span = _span(wanted, size)
    if span is None:
        start, end, status = 0, size, 200
    elif span[0] >= span[1]:
        headers = {"Content-Range": f"bytes */{size}"}
        return error_response(BadRequest("The range is beyond the end.").body(), 416, headers)
    else:
        (start, end), status = span, 206
        base["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    base["Content-Length"] = str(end - start)
    chunks = _chunks(services.store, key, start, end)
    try:
        first = next(chunks, b"")  # before the headers go out: a blob that is gone is an error
    except FileNotFoundError:
        raise Gone from None
    body = chain([first], chunks)
    return StreamingResponse(body, status_code=status, media_type=media_type, headers=base)


def _address(
    services: Services, key: str, request: Request, media_type: str, disposition: str
) -> str | None:
    """Where the store serves the blob itself; GET only is what such an address answers."""
    seconds = services.settings.presigned_seconds
    if not seconds or head.is_head(request):
        return None
    return services.store.url(
        key, seconds=seconds, content_type=media_type, disposition=disposition
    )


def _matches(given: str | None, tag: str) -> bool:
    items = [item.strip().removeprefix("W/") for item in (given or "").split(",")]
    return "*" in items or tag in items


def _span(given: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last; empty when there is none; None for the whole blob.

    Several ranges at once are answered with the whole, as the RFC allows.
    """
    match = _RANGE.fullmatch((given or "").replace(" ", ""))
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size if int(last) else 0
    end = min(int(last) + 1, size) if last else size
    if last and int(last) < int(first):
        return None
    return int(first), end


def _chunks(store: BlobStore, key: str, start: int, end: int) -> Iterator[bytes]:
    with store.open(key) as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(CHUNK, end - start))):
            start += len(chunk)
            yield chunk
