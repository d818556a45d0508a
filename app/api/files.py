"""``/v1/files`` in OpenAI's shape: upload, look, read, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api import blobs, fields, openapi
from app.api.context import Owner, ServicesDep, services
from app.api.multipart import Form, read_form
from app.db import files as rows
from app.db.records import File
from app.errors import BadRequest
from app.jobs import files

PURPOSES = ("batch", "user_data")
MAX_PARTS = 16
TEXT_BYTES = 4096  # of one text field
EXPIRY = "expires_after[seconds]"
SHORTEST, LONGEST = 3600, 2_592_000  # s, OpenAI's own bounds of it
TEXTS = frozenset({"purpose", EXPIRY})

FileId = Annotated[str, Path(max_length=40, pattern="^file-[0-9a-f]{32}$")]
Cursor = Annotated[str | None, Query(max_length=40)]

router = APIRouter(prefix="/v1/files", tags=["files"])


@router.post("", openapi_extra=openapi.FILE, responses=openapi.errors(400, 408, 413, 503))
async def create_file(request: Request, owner: Owner) -> dict[str, Any]:
    """Upload a file: the requests of a batch, or a recording for them."""
    context = services(request)
    settings = context.settings
    async with read_form(
        request,
        max_bytes=settings.batch_max_bytes,
        max_parts=MAX_PARTS,
        max_seconds=settings.batch_upload_timeout_seconds,
        texts=TEXTS,
        max_text_bytes=TEXT_BYTES,
    ) as form:
        part = form.file
        if part is None:
            raise BadRequest("missing required 'file' part in multipart form-data", param="file")
        purpose, keep = _purpose(form), _keep(form)

        def create() -> File:
            return files.create(
                context,
                part.file,
                owner=owner,
                purpose=purpose,
                filename=part.name,
                keep_seconds=keep,
            )

        return view(await anyio.to_thread.run_sync(create))


@router.get("")
def list_files(
    services: ServicesDep,
    owner: Owner,
    *,
    purpose: Annotated[str | None, Query(max_length=32)] = None,
    after: Cursor = None,
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
) -> dict[str, Any]:
    """``after`` is the id of the last file of the page before."""
    cursor = files.get(services, after, owner) if after else None
    with services.database.reading() as connection:
        found = rows.list_files(
            connection,
            owner=owner,
            purpose=purpose,
            after=cursor,
            oldest_first=order == "asc",
            limit=limit + 1,
        )
    return page([view(file) for file in found], limit)


@router.get("/{file_id}")
def get_file(services: ServicesDep, owner: Owner, file_id: FileId) -> dict[str, Any]:
    return view(files.get(services, file_id, owner))


@router.get("/{file_id}/content")
def get_content(services: ServicesDep, owner: Owner, request: Request, file_id: FileId) -> Response:
    file = files.get(services, file_id, owner)
    is_speech = file.filename.endswith(".wav") and file.purpose == "batch_output"
    return blobs.respond(
        services,
        file.key,
        size=file.bytes,
        sha256=file.id,  # a file never changes
        request=request,
        media_type="audio/wav" if is_speech else "application/octet-stream",
    )


@router.delete("/{file_id}")
def delete_file(services: ServicesDep, owner: Owner, file_id: FileId) -> dict[str, Any]:
    files.delete(services, files.get(services, file_id, owner))
    return {"id": file_id, "object": "file", "deleted": True}


def view(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at.timestamp()),
        "expires_at": int(file.expires_at.timestamp()),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }


def page(found: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """OpenAI's list, of one more than was asked for if there are more."""
    data = found[:limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > limit,
    }


def _purpose(form: Form) -> str:
    given = fields.text(form.last("purpose"))
    if given not in PURPOSES:
        raise BadRequest(f"'purpose' must be one of {', '.join(PURPOSES)}", param="purpose")
    return given


def _keep(form: Form) -> float | None:
    given = fields.text(form.last(EXPIRY))
    if given is None:
        return None
    if not given.isdecimal() or not SHORTEST <= int(given[:9]) <= LONGEST:
        raise BadRequest(f"'{EXPIRY}' must be from {SHORTEST} to {LONGEST}", param="expires_after")
    return float(given[:9])
