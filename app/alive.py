"""Health checks of containers: ``python -m app.alive api|worker`` ends with 0 when it is well.

A worker is asked through its row: it answers no remote control while it computes.
"""

from __future__ import annotations

import http.client
import socket
import sys
from datetime import timedelta

from app.clock import now
from app.db import queries
from app.db.engine import Database
from app.settings import Settings

ANSWER_SECONDS = 5


def api(settings: Settings) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", settings.port, timeout=ANSWER_SECONDS)
    connection.request("GET", "/health")
    return connection.getresponse().status == http.HTTPStatus.OK


def worker(settings: Settings) -> bool:
    """Whether a worker of this host has been seen lately."""
    database = Database(settings.resolved_database_url)
    seen_after = now() - timedelta(seconds=settings.worker_stale_seconds)
    with database.reading() as connection:
        live = queries.live_workers(connection, seen_after)
    database.close()
    return any(found.host == socket.gethostname() for found in live)


def main() -> None:
    check = {"api": api, "worker": worker}[sys.argv[1]]
    sys.exit(not check(Settings()))


if __name__ == "__main__":
    main()
