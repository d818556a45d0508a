"""How often each API key may ask. Loaded where keys are asked for: its library is slow to load."""

from __future__ import annotations

import math
import time

import structlog
from limits import RateLimitItemPerMinute
from limits.errors import StorageError as LimitsUnknown
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter
from redis import ConnectionPool

from app.broker import redis_url
from app.db.records import ApiKey
from app.errors import TooManyRequests
from app.settings import Settings

ANSWER_SECONDS = 2  # within which the broker must tell a count

log = structlog.get_logger()


class Limiter:
    """Counts the requests of each key, for all front doors together, in the broker."""

    def __init__(self, settings: Settings) -> None:
        pool = ConnectionPool.from_url(
            redis_url(settings.broker_url),
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
        )
        storage = RedisStorage(
            "redis://",
            connection_pool=pool,
            key_prefix=f"{settings.broker_prefix}limits",
            wrap_exceptions=True,
        )
        self._default = settings.requests_per_minute
        self._windows = MovingWindowRateLimiter(storage)

    def count(self, key: ApiKey) -> None:
        """Raises TooManyRequests; a broker that is away lets everybody in."""
        most = self._default if key.requests_per_minute is None else key.requests_per_minute
        if most == 0:
            return
        item = RateLimitItemPerMinute(most)
        try:
            if self._windows.hit(item, key.id):
                return
            wait = self._windows.get_window_stats(item, key.id).reset_time - time.time()
        except LimitsUnknown as error:
            log.warning("limit_not_counted", error=str(error))
            return
        raise TooManyRequests(headers={"Retry-After": str(max(math.ceil(wait), 1))})
