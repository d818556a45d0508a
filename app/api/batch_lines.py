"""The bodies that a batch's lines may have: those of the three audio endpoints, as JSON.

A recording is named by ``file`` or ``url``: the id of an uploaded file, ``s3://bucket/key`` or a
web address. The formats are all those that OpenAI's API has.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.api import fields
from app.api.errors import unprocessable
from app.api.schemas import SpeechRequest
from app.errors import BadRequest
from app.jobs.batch_lines import LineRequest
from app.jobs.batches import ENDPOINTS
from app.jobs.formats import Format
from app.settings import Settings
from app.states import Kind

TIMED = frozenset({Format.VERBOSE_JSON, Format.SRT, Format.VTT, Format.TSV})


class AudioBody(BaseModel):
    """Unknown keys are ignored, as the endpoints do."""

    model_config = ConfigDict(strict=True, extra="ignore")

    file: str | None = None
    url: str | None = None
    language: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    response_format: str | None = None


def read(settings: Settings, endpoint: str, body: dict[str, Any]) -> LineRequest:
    kind = ENDPOINTS[endpoint]
    try:
        if kind is Kind.SPEECH:
            return _speech(settings, SpeechRequest.model_validate(body))
        return _audio(kind, AudioBody.model_validate(body))
    except ValidationError as error:
        raise unprocessable(error.errors()[0]) from None


def _audio(kind: Kind, body: AudioBody) -> LineRequest:
    source = fields.text(body.file) or fields.text(body.url)
    if source is None:
        raise BadRequest("'file' or 'url' must name the recording", param="file")
    wanted = _format(body.response_format)
    options = {
        "language": fields.language(body.language),
        "prompt": fields.prompt(body.prompt),
        "temperature": None
        if body.temperature is None
        else fields.temperature(str(body.temperature)),
        "response_format": None if wanted is Format.JSON else wanted,
        "timestamps": wanted in TIMED or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return LineRequest(kind=kind, options=given, source=source)


def _format(value: str | None) -> Format:
    try:
        return Format(fields.text(value) or Format.JSON)
    except ValueError:
        raise BadRequest(
            f"response_format '{value}' is not one of {', '.join(Format)}", param="response_format"
        ) from None


def _speech(settings: Settings, body: SpeechRequest) -> LineRequest:
    fields.speech_format(body.response_format)
    options = {
        "input": fields.whole_text(body.input, max_characters=settings.batch_max_characters),
        "voice": fields.voice(body.voice),
        "speed": fields.speed(body.speed),
    }
    given = {name: value for name, value in options.items() if value is not None}
    return LineRequest(kind=Kind.SPEECH, options=given)
