"""A finished job as a response, in the shape that its route promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from starlette.responses import Response, StreamingResponse

from app.db.records import Job
from app.errors import Gone
from app.jobs import formats
from app.jobs.formats import Format, Rendered
from app.jobs.services import Services
from app.storage import BlobStore, keys
from models.transcript import Transcript

CHUNK = 1 << 18  # bytes sent at a time
# As a header and not as media_type, which would add a charset.
EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


def event(services: Services, job: Job) -> Response:
    """The transcript event that llama-server's clients read."""
    return _response(formats.render_transcription(transcript(services, job)))


def event_stream(services: Services, job: Job, *, even_empty: bool = True) -> Response:
    """The whole text in one event; ``even_empty``: also when there is none."""
    frames = formats.transcription_events(transcript(services, job), even_empty=even_empty)
    return Response("".join(frames), headers=EVENT_STREAM)


def translation(services: Services, job: Job) -> Response:
    wanted = Format(job.options.get("response_format", Format.JSON))
    return _response(formats.render_translation(transcript(services, job), wanted))


def transcript_as(services: Services, job: Job, wanted: Format) -> Response:
    return _response(formats.render(transcript(services, job), wanted))


def wav(services: Services, job: Job) -> Response:
    key = _output_key(job)
    headers = {
        "Content-Disposition": "attachment; filename=speech.wav",
        "Content-Length": str(job.output_bytes),
    }
    chunks = _chunks(services.store, key)
    try:
        first = next(chunks)  # before the headers go out, so that a blob that is gone is an error
    except FileNotFoundError:
        raise Gone from None
    return StreamingResponse(chain([first], chunks), media_type="audio/wav", headers=headers)


def timing(services: Services, job: Job) -> Response:
    """Stretches of the original text, each with its start and end in seconds."""
    key = keys.timing(job.id, job.attempt)
    _output_key(job)  # else it is gone
    try:
        with services.store.open(key) as file:
            return Response(file.read(), media_type="application/json")
    except FileNotFoundError:
        raise Gone from None


def transcript(services: Services, job: Job) -> Transcript:
    try:
        with services.store.open(_output_key(job)) as file:
            return Transcript.from_json(json.load(file))
    except FileNotFoundError:
        raise Gone from None


def _response(rendered: Rendered) -> Response:
    return Response(rendered.body, media_type=rendered.media_type)


def _output_key(job: Job) -> str:
    if job.output_key is None:
        raise Gone
    return job.output_key


def _chunks(store: BlobStore, key: str) -> Iterator[bytes]:
    with store.open(key) as file:
        while chunk := file.read(CHUNK):
            yield chunk
