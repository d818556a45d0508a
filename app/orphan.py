"""No orphans: a child process ends when the process that started it is gone.

The supervisor hands each child the reading end of a pipe (its number in ``VOXQUEUE_LIFELINE``) and
never writes to it; the pipe closes when the supervisor dies, however it dies.
"""

from __future__ import annotations

import os
import signal
import threading

LIFELINE = "VOXQUEUE_LIFELINE"


def end_with_parent() -> None:
    """Send this process SIGTERM when the supervisor's end of the lifeline closes."""
    number = os.environ.get(LIFELINE)
    if number is not None:
        threading.Thread(target=_watch, args=(int(number),), name="lifeline", daemon=True).start()


def _watch(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
