"""What the OpenAPI document says of requests that are read by hand, and of errors.

The routes parse their bodies themselves, to the rules of the documented system, so the framework
cannot know their shapes. Schemas only; nothing here is run by a request.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from app import errors as service_errors
from app.api.schemas import ErrorEnvelope, SpeechRequest

Schema = dict[str, Any]

ABOUT: dict[str, Any] = {
    "title": "Voxqueue",
    "description": "Speech to text and text to speech behind OpenAI's audio API, as a task queue.",
    "responses": {
        "default": {"model": ErrorEnvelope, "description": "Any error, in OpenAI's envelope"}
    },
}

_RETRY: Schema = {
    "Retry-After": {"description": "Seconds", "schema": {"type": "integer", "minimum": 0}}
}
_LOCATION: Schema = {
    "Location": {"description": "The job", "schema": {"type": "string", "format": "uri-reference"}}
}
_ERRORS: dict[int, type[service_errors.ServiceError]] = {
    kind.status: kind
    for kind in (
        service_errors.BadRequest,
        service_errors.NotFound,
        service_errors.RequestTimeout,
        service_errors.Conflict,
        service_errors.Gone,
        service_errors.TooLarge,
        service_errors.UnsupportedMediaType,
        service_errors.Unprocessable,
        service_errors.ServiceError,
        service_errors.AudioNotSupported,
        service_errors.Busy,
        service_errors.WaitTimeout,
    )
}
_HEADERS: dict[int, Schema] = {503: _RETRY, 504: _LOCATION}
# Not as a model, which would be shown under the media type of the route: errors are always JSON.
_ENVELOPE: Schema = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorEnvelope"}}}


def errors(*statuses: int) -> dict[int | str, Schema]:
    """The answers of a route with these statuses, described by the errors' own messages."""
    return {
        status: {
            "content": _ENVELOPE,
            "description": (_ERRORS[status].__doc__ or "").strip(),
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status in statuses
    }


PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async` answers 202 with a job at once, `respond-async, wait=N` after "
    "N seconds if the result is not there by then; others are ignored (RFC 7240).",
    "schema": {"type": "string"},
}
WAIT: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=N` answers once the job is in a final state, after N seconds as it is by "
    "then; others are ignored (RFC 7240).",
    "schema": {"type": "string"},
}
IDEMPOTENCY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A request repeated under its key joins the job of the first, running or done; "
    "another request under that key is answered 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
ACCEPTED: dict[int | str, Schema] = {
    202: {
        "description": "The request as a job, because `Prefer: respond-async` was asked for",
        "headers": _LOCATION
        | _RETRY
        | {"Preference-Applied": {"schema": {"type": "string", "const": "respond-async"}}},
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["id", "kind", "status"],
                    "properties": {
                        "id": {"type": "string"},
                        "kind": {"type": "string"},
                        "status": {"type": "string"},
                    },
                }
            }
        },
    }
}
ANY_ERROR: dict[int | str, Schema] = {
    "default": {**ABOUT["responses"]["default"], "model": None, "content": _ENVELOPE}
}
"""For routes whose own answer is not JSON."""
AUDIO_ERRORS = ACCEPTED | errors(400, 408, 413, 422, 500, 501, 503, 504) | ANY_ERROR


def text_answer(media_type: str, **schema: Any) -> Schema:
    return {media_type: {"schema": {"type": "string", **schema}}}


def _form(description: str, properties: Schema, required: list[str]) -> Schema:
    schema = {"type": "object", "properties": properties, "required": required}
    body = {"description": description, "required": True}
    return {"requestBody": {**body, "content": {"multipart/form-data": {"schema": schema}}}}


def _string(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def json_body(shape: type[BaseModel]) -> Schema:
    content = {"application/json": {"schema": shape.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


_FILE = _string("WAV, MP3 or FLAC, told by its first bytes; at most 25 MiB.", format="binary")
_MODEL = _string("Carried and ignored: what is loaded transcribes.")
_LANGUAGE = _string("Code of the language spoken, such as `en`; detected when absent.")
_TEMPERATURE = _string("A finite number.", pattern=r"^\s*([+-]?[0-9]+(\.[0-9]*)?)?\s*$")

_TIMESTAMPS = _string("`true` to have the model tell segment times, for a job's subtitles.")
_CALLBACK = _string("Told of the final state by a signed POST.", format="uri")

TRANSCRIPTION: Schema = {"parameters": [PREFER, IDEMPOTENCY]} | _form(
    "At most 32 parts. A repeated `file` keeps the last; a repeated text field counts as absent.",
    {
        "file": _FILE,
        "model": _MODEL,
        "prompt": _string("Whisper ignores it."),
        "language": _LANGUAGE,
        "response_format": _string("Nothing but `json`.", enum=["json"]),
        "temperature": _TEMPERATURE,
        "max_tokens": _string("A whole number, zero or more.", pattern=r"^\s*[0-9]{0,18}\s*$"),
        "stream": _string("`true` for server-sent events; anything else is false."),
        "timestamps": _TIMESTAMPS,
        "callback_url": _CALLBACK,
    },
    ["file"],
)
TRANSLATION: Schema = {"parameters": [PREFER, IDEMPOTENCY]} | _form(
    "At most 1,000 parts. A repeated field keeps the last.",
    {
        "file": _FILE,
        "model": _MODEL,
        "language": _LANGUAGE,
        "response_format": _string("`json` if absent.", enum=["json", "text", "verbose_json"]),
        "temperature": _TEMPERATURE,
        "timestamps": _TIMESTAMPS,
        "callback_url": _CALLBACK,
    },
    ["file"],
)
FILE: Schema = _form(
    "A file of batch requests, or a recording for them.",
    {
        "file": _string("One JSON object a line, or audio.", format="binary"),
        "purpose": _string("What it is for.", enum=["batch", "user_data"]),
        "expires_after[seconds]": _string("From 3600 to 2592000.", pattern="^[0-9]{4,7}$"),
    },
    ["file", "purpose"],
)
BULK: Schema = {"parameters": [IDEMPOTENCY]} | _form(
    "A recording, or for speech its `input`. The bounds are those of batches.",
    {
        "kind": _string(
            "`transcription` if absent.", enum=["transcription", "translation", "speech"]
        ),
        "file": _string("WAV, MP3 or FLAC, told by its first bytes.", format="binary"),
        "language": _LANGUAGE,
        "prompt": _string("Whisper ignores it."),
        "temperature": _TEMPERATURE,
        "max_tokens": _string("A whole number, zero or more.", pattern=r"^\s*[0-9]{0,18}\s*$"),
        "timestamps": _TIMESTAMPS,
        "input": _string("The text to speak; nothing of it is cut."),
        "voice": _string("An unknown one is the default."),
        "speed": _string("1.0 when not positive; held to the range from 0.25 to 4."),
        "force": _string("`true` to do the work even if its result is there already."),
        "callback_url": _CALLBACK,
    },
    [],
)
SPEECH: Schema = {
    "parameters": [PREFER, IDEMPOTENCY],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SpeechRequest.model_json_schema()}},
    },
}
