"""Who may call: API keys, made once and kept as hashes, and how often each may ask.

A token is 256 random bits, so a plain SHA-256 of it cannot be turned back and needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time

import structlog
from limits import RateLimitItemPerMinute
from limits.errors import StorageError as LimitsUnknown
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter
from redis import ConnectionPool

from app.broker import redis_url
from app.clock import new_id, now
from app.db import keys
from app.db.engine import Database
from app.db.records import ApiKey
from app.errors import TooManyRequests, Unauthorized
from app.settings import Settings

TOKEN_BYTES = 32
ANSWER_SECONDS = 2  # within which the broker must tell a count

log = structlog.get_logger()


class Unguarded(RuntimeError):
    """The service would answer anybody in the network."""


def create(database: Database, name: str, *, requests_per_minute: int | None) -> tuple[ApiKey, str]:
    """A new key and its token, which nobody can show again."""
    token = f"vq_{secrets.token_urlsafe(TOKEN_BYTES)}"
    key = ApiKey(
        id=new_id("key"),
        name=name,
        sha256=_hash(token),
        requests_per_minute=requests_per_minute,
        created_at=now(),
    )
    with database.writing() as connection:
        keys.insert_key(connection, key)
    return key, token


def authenticate(database: Database, token: str) -> ApiKey:
    """Raises Unauthorized."""
    wanted = _hash(token)
    with database.reading() as connection:
        key = keys.find(connection, wanted)
    if key is None or not hmac.compare_digest(key.sha256, wanted):
        raise Unauthorized
    return key


def require_guard(database: Database, settings: Settings) -> None:
    """Raises Unguarded, which says what to do, when keys are asked for and there are none."""
    if not settings.asks_for_keys:
        return
    with database.reading() as connection:
        usable = any(key.revoked_at is None for key in keys.list_keys(connection))
    if not usable:
        raise Unguarded(
            "no API key exists: make one with `voxqueue keys create NAME`, "
            f"or pass --insecure-no-auth to serve anybody who reaches {settings.host}"
        )


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


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
