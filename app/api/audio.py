"""The three routes of the seed dialect, each with its alias: parse, submit, answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from fastapi import APIRouter
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.responses import Response

from app.api import fields, openapi, render
from app.api.answer import answer
from app.api.context import services
from app.api.errors import unprocessable
from app.api.multipart import FilePart, read_body, read_form
from app.api.schemas import SpeechRequest, TranscriptEvent, Translation
from app.errors import BadRequest, UnsupportedMediaType
from app.jobs import workers
from app.jobs.submit import Submission, Upload
from app.states import Kind

TRANSCRIPTION_PARTS = 32
TRANSLATION_PARTS = 1000
TRANSCRIPTION_TEXTS = frozenset(
    {"temperature", "max_tokens", "prompt", "language", "response_format", "stream"}
    | {"timestamps", "callback_url"}
)
TRANSLATION_TEXTS = frozenset(
    {"temperature", "language", "response_format", "timestamps", "callback_url"}
)
# Of arrays and objects in a body: each takes 20 times its bytes in memory when it is parsed.
MAX_JSON_NESTS = 1_000_000

router = APIRouter(tags=["audio"])

Handler = Callable[..., Any]


class Wav(Response):
    media_type = "audio/wav"


def post(path: str, **options: Any) -> Callable[[Handler], Handler]:
    """A POST route below /v1 and its alias without."""

    def register(handler: Handler) -> Handler:
        router.post(f"/v1{path}", **options)(handler)
        router.post(path, include_in_schema=False)(handler)
        return handler

    return register


@post(
    "/audio/transcriptions",
    openapi_extra=openapi.TRANSCRIPTION,
    response_model=TranscriptEvent,
    responses={200: {"content": openapi.text_answer("text/event-stream")}} | openapi.AUDIO_ERRORS,
)
async def transcriptions(request: Request) -> Response:
    """Speech to text in the language spoken."""
    bounds = _bounds(request, TRANSCRIPTION_PARTS)
    async with read_form(request, **bounds, texts=TRANSCRIPTION_TEXTS) as form:
        if form.file is None:
            raise BadRequest("No input file found for transcription", param="file")
        await _require(request, Kind.TRANSCRIPTION)
        options = {
            "temperature": fields.temperature(form.once("temperature")),
            "max_tokens": fields.max_tokens(form.once("max_tokens")),
            "prompt": fields.prompt(form.once("prompt")),
            "language": fields.language(form.once("language")),
            "timestamps": form.once("timestamps") == "true" or None,
            "stream": form.once("stream") == "true" or None,
        }
        fields.transcription_format(form.once("response_format"))
        called = form.once("callback_url")
        submission = _submission(Kind.TRANSCRIPTION, options, form.file, called)
        streamed = "stream" in submission.options
        shown = render.event_stream if streamed else render.event
        return await answer(request, submission, shown, streamed=streamed)


@post(
    "/audio/translations",
    openapi_extra=openapi.TRANSLATION,
    response_model=Translation,
    responses={200: {"content": openapi.text_answer("text/plain")}} | openapi.AUDIO_ERRORS,
)
async def translations(request: Request) -> Response:
    """Speech to English text."""
    bounds = _bounds(request, TRANSLATION_PARTS)
    async with read_form(request, **bounds, texts=TRANSLATION_TEXTS, file_by_name=True) as form:
        if form.file is None:
            raise BadRequest("missing required 'file' part in multipart form-data", param="file")
        await _require(request, Kind.TRANSLATION)
        options = {
            "temperature": fields.temperature(form.last("temperature")),
            "language": fields.language(form.last("language")),
            "response_format": fields.translation_format(form.last("response_format")),
            "timestamps": form.last("timestamps") == "true" or None,
        }
        called = form.last("callback_url")
        submission = _submission(Kind.TRANSLATION, options, form.file, called)
        return await answer(request, submission, render.translation)


@post(
    "/audio/speech",
    openapi_extra=openapi.SPEECH,
    response_class=Wav,
    responses={200: {"content": openapi.text_answer("audio/wav", format="binary")}}
    | openapi.AUDIO_ERRORS
    | openapi.errors(415),
)
async def speech(request: Request) -> Response:
    """Text to speech, as a WAV file."""
    wanted = await _speech_request(request)
    await _require(request, Kind.SPEECH)
    fields.speech_format(wanted.response_format)
    options = {
        "input": fields.spoken(wanted.input),
        "voice": fields.voice(wanted.voice),
        "speed": fields.speed(wanted.speed),
    }
    submission = Submission(
        kind=Kind.SPEECH, options=options, callback_url=fields.text(wanted.callback_url)
    )
    return await answer(request, submission, render.wav)


def _bounds(request: Request, max_parts: int) -> dict[str, Any]:
    settings = services(request).settings
    return {
        "max_bytes": settings.max_upload_bytes,
        "max_parts": max_parts,
        "max_seconds": settings.upload_timeout_seconds,
    }


async def _require(request: Request, kind: Kind) -> None:
    await anyio.to_thread.run_sync(workers.require, services(request), kind)


def _submission(
    kind: Kind, options: dict[str, Any], part: FilePart, callback_url: str | None
) -> Submission:
    upload = Upload(file=part.file, size=part.size, name=part.name)
    given = {key: value for key, value in options.items() if value is not None}
    return Submission(
        kind=kind, options=given, upload=upload, callback_url=fields.text(callback_url)
    )


async def _speech_request(request: Request) -> SpeechRequest:
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"application/json":
        raise UnsupportedMediaType("Content-Type must be application/json")
    settings = services(request).settings
    body = await read_body(
        request, max_bytes=settings.max_upload_bytes, max_seconds=settings.upload_timeout_seconds
    )
    if body.count(b"[") + body.count(b"{") > MAX_JSON_NESTS:
        raise BadRequest("the body is not JSON: too many arrays and objects")
    try:
        return SpeechRequest.model_validate(json.loads(body))
    except ValidationError as error:
        raise unprocessable(error.errors()[0]) from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
