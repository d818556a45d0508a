"""Flower on the service's own broker: ``python -m app.flower``, to watch queues and workers.

It is given the one Celery configuration, since it must read the same keys with the same visibility
timeout. Flower reads its options from ``FLOWER_…`` variables; anybody who reaches it may read job
ids and stop workers, so beyond the loopback it starts behind a password only.
"""

from __future__ import annotations

import os
import sys

from app.broker import make_celery
from app.settings import Settings, is_loopback


def main() -> None:
    settings = Settings()
    address = os.environ.get("FLOWER_ADDRESS", "127.0.0.1")
    if not settings.broker_url:
        sys.exit("voxqueue: VOXQUEUE_BROKER_URL is not set: Flower watches that broker")
    if not is_loopback(address) and not os.environ.get("FLOWER_BASIC_AUTH"):
        sys.exit(
            f"voxqueue: FLOWER_ADDRESS {address} is public: set FLOWER_BASIC_AUTH=user:password"
        )
    celery = make_celery(
        settings.broker_url,
        settings.broker_prefix,
        visibility_seconds=settings.broker_visibility_seconds,
        restore_seconds=settings.broker_restore_seconds,
    )
    celery.start(["flower", f"--address={address}"])


if __name__ == "__main__":
    main()
