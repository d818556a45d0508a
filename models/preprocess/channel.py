"""A bounded first-in-first-out hand-off between threads that can be closed from either side."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Closed(Exception):
    """Nothing more goes in, and nothing is left to come out."""


class Full(Exception):
    """No room now."""


class Channel(Generic[Item]):
    def __init__(self, depth: int) -> None:
        self._depth = max(1, depth)
        self._items: deque[Item] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put_nowait(self, item: Item) -> None:
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._items) >= self._depth:
                raise Full
            self._append(item)

    def put(self, item: Item) -> None:
        """Wait for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._depth)
            if self._closed:
                raise Closed
            self._append(item)

    def get(self, timeout: float | None = None) -> Item:
        """Wait for an item; TimeoutError after so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or bool(self._items), timeout):
                raise TimeoutError
            if not self._items:
                raise Closed
            self._changed.notify_all()
            return self._items.popleft()

    def close(self) -> list[Item]:
        """What was inside, which is the closer's now."""
        with self._changed:
            self._closed = True
            left = list(self._items)
            self._items.clear()
            self._changed.notify_all()
            return left

    def _append(self, item: Item) -> None:
        self._items.append(item)
        self._changed.notify_all()
