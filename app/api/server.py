"""The front door's process: ``python -m app.api.server [--fd N]``."""

from __future__ import annotations

import argparse
import socket

import uvicorn

from app import telemetry
from app.api.main import create_app
from app.api.protocol import Protocol
from app.logs import set_up_logging
from app.orphan import end_with_parent
from app.settings import Settings

# A client or proxy that keeps a connection for a minute shall not meet one just closed.
KEEP_ALIVE_SECONDS = 75
GRACE_SECONDS = 10  # for requests in flight when the process is told to stop


def main() -> None:
    parser = argparse.ArgumentParser(prog="voxqueue api")
    parser.add_argument("--fd", type=int, help="a listening socket handed down by the supervisor")
    descriptor = parser.parse_args().fd
    settings = Settings()
    set_up_logging(settings)
    telemetry.set_up("api")
    end_with_parent()
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http=Protocol,
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(None if descriptor is None else [inherited(descriptor)])


def inherited(descriptor: int) -> socket.socket:
    """As the TCP socket that it is: for another, asyncio leaves Nagle's algorithm on.

    Uvicorn's own ``fd`` takes it for a Unix socket, and every answer waits 40 ms for an ACK.
    """
    found = socket.socket(fileno=descriptor)
    kind = (found.family, found.type, socket.IPPROTO_TCP)
    return socket.socket(*kind, fileno=found.detach())


if __name__ == "__main__":
    main()
