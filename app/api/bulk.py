"""``POST /v1/jobs``: work of any kind for the bulk lane, where nobody waits on the connection.

The bounds are those of batches: a recording may last a day, and no text is cut. Never answered by
anything but a job.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api import fields, openapi
from app.api.answer import accepted
from app.api.context import services
from app.api.multipart import Form, read_form
from app.errors import BadRequest
from app.jobs import idempotency, workers
from app.jobs.submit import Submission, Upload, submit
from app.settings import Settings
from app.states import Kind, Lane

MAX_PARTS = 32
TEXT_BYTES = 1 << 20  # of one text field
UTF8_BYTES = 4  # of one character, at most
TEXTS = frozenset(
    {"kind", "force", "callback_url"}
    | {"language", "prompt", "temperature", "max_tokens", "timestamps"}
    | {"input", "voice", "speed"}
)

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.post(
    "",
    status_code=202,
    openapi_extra=openapi.BULK,
    responses=openapi.ACCEPTED | openapi.errors(400, 408, 413, 422, 501, 503),
)
async def create_job(request: Request) -> Response:
    """Submit work for the bulk lane."""
    context = services(request)
    settings = context.settings
    async with read_form(
        request,
        max_bytes=settings.batch_max_bytes,
        max_parts=MAX_PARTS,
        max_seconds=settings.batch_upload_timeout_seconds,
        texts=TEXTS,
        max_text_bytes=max(TEXT_BYTES, UTF8_BYTES * settings.batch_max_characters),
    ) as form:
        submission = _submission(request, settings, form)
        await anyio.to_thread.run_sync(workers.require, context, submission.kind)
        job = await anyio.to_thread.run_sync(submit, context, submission)
    return await anyio.to_thread.run_sync(accepted, context, job)


def _submission(request: Request, settings: Settings, form: Form) -> Submission:
    kind = _kind(form.last("kind"))
    options = _spoken(settings, form) if kind is Kind.SPEECH else _heard(form)
    options |= {"force": form.last("force") == "true" or None}
    part = form.file if kind is not Kind.SPEECH else None
    return Submission(
        kind=kind,
        options={name: value for name, value in options.items() if value is not None},
        upload=Upload(file=part.file, size=part.size, name=part.name) if part else None,
        lane=Lane.BULK,
        sync=False,
        request_id=request.state.request_id,
        idempotency_key=request.headers.get(idempotency.HEADER),
        owner=getattr(request.state, "owner", ""),
        callback_url=fields.text(form.last("callback_url")),
    )


def _kind(value: str | None) -> Kind:
    try:
        return Kind(fields.text(value) or Kind.TRANSCRIPTION)
    except ValueError:
        raise BadRequest(f"'kind' is not one of {', '.join(Kind)}", param="kind") from None


def _heard(form: Form) -> dict[str, Any]:
    if form.file is None:
        raise BadRequest("No input file found for transcription", param="file")
    return {
        "temperature": fields.temperature(form.last("temperature")),
        "max_tokens": fields.max_tokens(form.last("max_tokens")),
        "prompt": fields.prompt(form.last("prompt")),
        "language": fields.language(form.last("language")),
        "timestamps": form.last("timestamps") == "true" or None,
    }


def _spoken(settings: Settings, form: Form) -> dict[str, Any]:
    speed = fields.text(form.last("speed"))
    try:
        number = float(speed) if speed else None
    except ValueError:
        raise BadRequest(f"invalid 'speed' value: {speed}", param="speed") from None
    return {
        "input": fields.whole_text(
            form.last("input") or "", max_characters=settings.batch_max_characters
        ),
        "voice": fields.voice(form.last("voice")),
        "speed": fields.speed(number),
    }
