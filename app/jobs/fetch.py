"""One GET of an address that somebody else chose: guarded, bounded in size and in time.

Every connection goes through the guard of webhooks, so a redirect to a forbidden place is refused
like the place itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

import httpcore2
from httpcore2 import ConnectionPool, Response

from app.errors import BadRequest
from app.jobs.callbacks import Forbidden
from app.jobs.post import GuardedBackend
from app.scrub import scrubbed

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRETS = re.compile(r"(?<=//)[^/?#]*@|[?#].*", re.DOTALL)
FAULTS = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    seconds: float
    max_bytes: int
    allow: str
    """Hosts and networks, by commas, that need not be public."""
    check: Callable[[], None] = lambda: None
    """Called between two pieces of the answer; may raise."""


def fetch(url: str, file: BinaryIO, bounds: Bounds) -> None:
    """Write the answer's body to the file.

    Raises BadRequest that says what was wrong with the address or its answer.
    """
    backend = GuardedBackend(bounds.allow, bounds.seconds)
    try:
        with ConnectionPool(network_backend=backend) as pool:
            for _ in range(MAX_REDIRECTS + 1):
                following = _get(pool, url, file, bounds)
                if following is None:
                    return
                url = following
    except Forbidden as error:
        raise _refused(url, f"refused: {error}") from error
    except (httpcore2.UnsupportedProtocol, httpcore2.LocalProtocolError, ValueError) as error:
        raise _refused(url, f"not a URL: {error}") from error
    except FAULTS as error:
        raise _refused(url, f"{type(error).__name__}: {scrubbed(error)}") from error
    raise _refused(url, f"more than {MAX_REDIRECTS} redirects")


def _get(pool: ConnectionPool, url: str, file: BinaryIO, bounds: Bounds) -> str | None:
    """Where the answer sends one on to; None when it was the thing itself."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise _refused(url, "its scheme is not http or https")
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), bounds.seconds)
    headers = [("User-Agent", "Voxqueue"), ("Accept-Encoding", "identity")]
    with pool.stream("GET", url, headers=headers, extensions={"timeout": timeouts}) as response:
        if response.status in REDIRECTS:
            return urljoin(url, _header(response, b"location"))
        if response.status != 200:
            raise _refused(url, f"HTTP {response.status}")
        left = bounds.max_bytes
        for chunk in response.iter_stream():
            bounds.check()
            left -= len(chunk)
            if left < 0:
                raise _refused(url, f"longer than {bounds.max_bytes} bytes")
            file.write(chunk)
    return None


def _header(response: Response, name: bytes) -> str:
    found = (value for key, value in response.headers if key.lower() == name)
    return next(found, b"").decode("latin-1")


def _refused(url: str, reason: str) -> BadRequest:
    """Names the address without what may be a secret in it: a password, a signature."""
    plain = _SECRETS.sub("", url)[:200]
    return BadRequest(f"cannot fetch {plain}: {reason}", param="url")
