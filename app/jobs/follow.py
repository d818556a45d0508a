"""Following a job's text while it is made: what the worker tells (tasks/telling.py), then the end.

Nothing is missed between the job's start and the first look, since the broker keeps the pieces;
nothing comes twice, since a later attempt at the job only adds to what an earlier one has told.
The stored transcript stays the truth, and the row says when the job has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import structlog
from redis import RedisError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.broker import Piece, redis_url, text_key
from app.db.records import Job
from app.errors import Unavailable
from app.jobs.services import Services
from app.jobs.wait import Doorbell, wait

BLOCK_MILLISECONDS = 1_000  # of one look at the pieces; the end of the job ends it early

log = structlog.get_logger()


class TextLost(Unavailable):
    """The text could not be followed to its end. Please try again later."""

    def __init__(self) -> None:
        super().__init__((type(self).__doc__ or "").strip())


class Text:
    """The text of a job, put together from the pieces of whatever attempts there were."""

    def __init__(self) -> None:
        self.told = ""
        """What the listener has been given."""
        self.last: Piece | None = None
        self._said = ""
        """By the attempt that is at work."""

    def take(self, piece: Piece) -> str:
        """What is new to the listener. Raises TextLost where a piece is missing."""
        if piece.number == 0:
            self._said = ""
        elif not self._follows(piece):
            raise TextLost
        self.last = piece
        self._said += piece.text
        return self.rest(self._said)

    def rest(self, text: str) -> str:
        """What ``text`` has beyond what was given, and give that too.

        Raises TextLost where the listener was given another text.
        """
        length = min(len(text), len(self.told))
        if text[:length] != self.told[:length]:
            raise TextLost
        new = text[length:]
        self.told += new
        return new

    def _follows(self, piece: Piece) -> bool:
        last = self.last
        return last is not None and (last.attempt, last.number + 1) == (piece.attempt, piece.number)


class Following:
    """One listener of one job, which is there after its pieces.

    It is final, or as it is when the time is up; None when it is gone.
    """

    def __init__(
        self, services: Services, doorbell: Doorbell, job_id: str, *, seconds: float
    ) -> None:
        self._services, self._doorbell = services, doorbell
        self.job_id, self._seconds = job_id, seconds
        self._key = text_key(services.settings.broker_prefix, job_id)
        self.text = Text()
        self.job: Job | None = None

    @property
    def told_by_model(self) -> bool:
        """Whether the model tells its text at all, if only that it begins."""
        return self.text.last is not None

    async def pieces(self) -> AsyncGenerator[str, None]:
        """None of them empty. Raises TextLost; without a broker at first, there are none."""
        waiting = asyncio.create_task(
            wait(self._services, self._doorbell, self.job_id, self._seconds)
        )
        try:
            try:
                async with _client(self._services.settings.broker_url) as client:
                    async for piece in self._until(waiting, client):
                        yield piece
            except (RedisError, OSError) as error:
                log.warning("text_lost", job_id=self.job_id, error=str(error))
                if self.text.told:
                    raise TextLost from error
            self.job = await waiting
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting

    async def _until(
        self, waiting: asyncio.Task[Job | None], client: Redis
    ) -> AsyncGenerator[str, None]:
        while not waiting.done():
            reading = asyncio.create_task(self._read(client, block=BLOCK_MILLISECONDS))
            try:
                await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
                found = reading.result() if reading.done() else []
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError, RedisError, OSError):
                    await reading
            for piece in self._new(found):
                yield piece
        for piece in self._new(await self._read(client)):  # told just before the end
            yield piece

    def _new(self, found: list[Piece]) -> list[str]:
        return [new for piece in found if (new := self.text.take(piece))]

    async def _read(self, client: Redis, block: int | None = None) -> list[Piece]:
        """The pieces after the last one, once there are any or the time is up."""
        last = self.text.last
        after = f"{last.attempt}-{last.number}" if last else "0-0"
        answer: Any = await client.xread({self._key: after}, block=block)
        return [_piece(*entry) for _, entries in answer for entry in entries]


def _piece(entry: bytes, fields: dict[bytes, bytes]) -> Piece:
    attempt, number = map(int, entry.split(b"-"))
    return Piece(attempt=attempt, number=number, text=fields[b"text"].decode())


def _client(broker_url: str) -> Redis:
    # A broker that comes back may have lost pieces, so no try is repeated behind the scenes.
    return Redis.from_url(redis_url(broker_url), protocol=2, retry=Retry(NoBackoff(), 0))
