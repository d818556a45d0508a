"""Who may call: API keys, made once and kept as hashes.

A token is 256 random bits, so a plain SHA-256 of it cannot be turned back and needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from app.clock import new_id, now
from app.db import keys
from app.db.engine import Database
from app.db.records import ApiKey
from app.errors import Unauthorized
from app.settings import Settings

TOKEN_BYTES = 32


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


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
