"""Waiting for a job: woken by the broker's publish, certain by reading the row.

One subscription serves every waiter of a process. A lost publish costs at most ``POLL_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio.to_thread
import structlog
from redis import RedisError
from redis.asyncio import Redis
from sqlalchemy.exc import InterfaceError, OperationalError

from app.broker import CHANNEL, redis_url
from app.db import queries
from app.db.records import Job
from app.jobs.services import Services

POLL_SECONDS = 0.25  # s between two looks at the row when no publish comes
RECONNECT_SECONDS = 1.0

log = structlog.get_logger()


class Doorbell:
    """Hands the publish of each finished job to whoever waits for that job in this process."""

    def __init__(self, broker_url: str, prefix: str) -> None:
        self._url = redis_url(broker_url)
        self._channel = prefix + CHANNEL
        self._events: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def bell(self, job_id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._events[job_id].add(event)
        try:
            yield event
        finally:
            self._events[job_id].discard(event)
            if not self._events[job_id]:
                del self._events[job_id]

    def ring(self, job_id: str) -> None:
        for event in self._events.get(job_id, ()):
            event.set()

    async def listen(self) -> None:
        """Serve until cancelled; a broker that is away is tried again."""
        while True:
            try:
                await self._subscribe()
            except (RedisError, OSError) as error:
                log.warning("doorbell_lost", error=str(error))
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _subscribe(self) -> None:
        async with Redis.from_url(self._url) as client, client.pubsub() as pubsub:
            await pubsub.subscribe(self._channel)
            async for message in pubsub.listen():
                if message["type"] == "message":
                    self.ring(message["data"].decode())


def read(services: Services, job_id: str) -> Job | None:
    with services.database.reading() as connection:
        return queries.get_job(connection, job_id)


async def wait(
    services: Services,
    doorbell: Doorbell,
    job_id: str,
    seconds: float,
    *,
    poll: float | None = None,
) -> Job | None:
    """The job once it is final, or as it is after so many seconds; None when it is gone.

    A database that is away in between is waited for as well. ``poll``: seconds between two looks at
    the row, for those of whom there may be any number.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    with doorbell.bell(job_id) as event:
        while True:
            event.clear()
            left = deadline - loop.time()
            try:
                job = await anyio.to_thread.run_sync(read, services, job_id)
            except (OperationalError, InterfaceError):
                if left <= 0:
                    raise
            else:
                if job is None or job.state.final or left <= 0:
                    return job
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, poll or POLL_SECONDS)):
                    await event.wait()
