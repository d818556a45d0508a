"""A transcription as events: text while it is made, then the whole, or the error as a last event.

What fails before the first piece of text is an ordinary answer. A caller that hangs up cancels a
job that only it wanted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api import render
from app.api.context import doorbell, services
from app.api.errors import job_error_body, presentable
from app.api.waiting import settled, while_connected
from app.db.records import Job
from app.errors import NotFound, ServiceError, WaitTimeout
from app.jobs import formats
from app.jobs.follow import Following
from app.jobs.lifecycle import cancel
from app.jobs.services import Services
from app.states import JobState

Events = AsyncGenerator[str, None]

log = structlog.get_logger()


class EventStream(StreamingResponse):
    def __init__(self, events: Events) -> None:
        super().__init__(events, headers=render.EVENT_STREAM)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # also when the caller has hung up between two events
            with anyio.CancelScope(shield=True):
                await self._events.aclose()


async def stream(request: Request, job: Job, seconds: float, *, kept: bool) -> Response:
    """Opened by the first piece of text; without one, the answer to the finished job."""
    context = services(request)
    following = Following(context, doorbell(request), job.id, seconds=seconds)
    pieces = following.pieces()

    async def first_piece() -> str | None:
        return await anext(pieces, None)

    first = await while_connected(request, job, first_piece(), kept=kept)
    if first is not None:
        return EventStream(_events(context, following, first, pieces, kept=kept))
    # A model that tells its text has none to tell, another one its whole text at once.
    whole = partial(render.event_stream, even_empty=not following.told_by_model)
    return await settled(context, following.job, job, whole)


async def _events(
    context: Services, following: Following, first: str, pieces: Events, *, kept: bool
) -> Events:
    ended = False
    try:
        yield formats.delta_event(first)
        async for piece in pieces:
            yield formats.delta_event(piece)
        found = following.job
        for event in await anyio.to_thread.run_sync(_last_events, context, following, found):
            yield event
        ended = True
    except ServiceError as error:
        ended = True
        yield _failed(error.body())
    except Exception:  # the answer has begun, so that nothing above can tell it any more
        log.exception("stream_failed")
        ended = True
        yield _failed(ServiceError().body())
    finally:
        with anyio.CancelScope(shield=True):  # a caller that has hung up has this task cancelled
            await pieces.aclose()
            if not (ended or kept):
                await anyio.to_thread.run_sync(cancel, context, following.job_id)


def _last_events(context: Services, following: Following, job: Job | None) -> list[str]:
    if job is None:
        raise NotFound("The job is gone.")
    if not job.state.final:
        raise WaitTimeout
    if job.state is not JobState.SUCCEEDED:
        return [_failed(job_error_body(job))]
    transcript = render.transcript(context, job)
    rest = following.text.rest(transcript.text)
    last = [formats.delta_event(rest)] if rest else []
    return [*last, formats.done_event(transcript), formats.DONE]


def _failed(error: dict[str, Any]) -> str:
    return formats.error_event(presentable(error)) + formats.DONE
