"""The wish that a worker stop, made by signals and read between two steps of a job."""

from __future__ import annotations


class Draining:
    """Set once and for all.

    It takes no lock: two signals may come as one, and the handler of the second, which interrupts
    that of the first, would wait for a threading.Event's lock for ever.
    """

    def __init__(self) -> None:
        self._wanted = False

    def set(self) -> None:
        self._wanted = True

    def is_set(self) -> bool:
        return self._wanted
