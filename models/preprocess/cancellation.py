"""Where work on audio may be given up, and the flag that says so.

A flag is any function that answers whether to stop; loops ask it at bounded distances.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum

from models.preprocess.errors import WaveformError

Cancelled = Callable[[], bool]
"""Whether the request was given up; asked often, from any thread."""

Poll = Callable[[], None]
"""Raises where the request was given up."""


class Checkpoint(StrEnum):
    ACQUISITION = "Acquisition"
    DECODE = "Decode"
    RESAMPLE = "Resample"
    FEATURE = "Feature"
    QUEUE = "Queue"


class PreprocessingCancelled(WaveformError):
    def __init__(self, checkpoint: Checkpoint, clip: int | None) -> None:
        where = "None" if clip is None else f"Some({clip})"
        super().__init__(f"audio preprocessing cancelled during {checkpoint} for clip {where}")


class CancelFlag:
    """The live flag of one request: set once, by any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    def __call__(self) -> bool:
        return self._event.is_set()


def never() -> bool:
    return False


def no_poll() -> None:
    """For work that nothing can cancel."""


def poll_at(cancelled: Cancelled, checkpoint: Checkpoint, clip: int | None) -> Poll:
    def poll() -> None:
        if cancelled():
            raise PreprocessingCancelled(checkpoint, clip)

    return poll
