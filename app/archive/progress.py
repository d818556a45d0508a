"""How a run shows itself: a live line on a terminal, else a plain line an item; all on stderr."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from app.archive.items import Item, Status
from app.archive.outputs import shown
from app.archive.report import FINAL, Entry

REFRESH = 4  # times a second


class Progress:
    """Implements app.archive.run.Watcher."""

    def __init__(self, items: Sequence[Item], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._total = len(items)
        self._seconds = sum(item.seconds or 0.0 for item in items if not item.problem)
        self._counts: Counter[Status] = Counter()
        self._heard = 0.0  # seconds of audio done, whenever
        self._fresh = 0.0  # the same by this run
        self._known = 0
        self._started = time.monotonic()
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, get_renderable=self._line, refresh_per_second=REFRESH):
            yield

    def finished(self, entry: Entry, *, fresh: bool) -> None:
        self._counts[entry.status] += 1
        if entry.status in FINAL:
            self._heard += entry.seconds or 0.0
            self._fresh += (entry.seconds or 0.0) if fresh else 0.0
            self._known += not fresh
        if self.console.is_terminal:
            if entry.status is Status.FAILED:
                self.console.print(Text(_told(entry), style="red"))
        elif fresh:
            self.console.print(f"[{self.done}/{self._total}] {_told(entry)}", markup=False)

    @property
    def done(self) -> int:
        return self._counts.total()

    @property
    def failures(self) -> int:
        return self._counts[Status.FAILED]

    @property
    def speed(self) -> float:
        """Seconds of audio a second, by this run."""
        return self._fresh / max(time.monotonic() - self._started, 1e-9)

    def summary(self) -> str:
        parts = [f"{self._counts[status]} {status}" for status in Status if self._counts[status]]
        known = f", {self._known} of them before" if self._known else ""
        took = _clock(time.monotonic() - self._started)
        return (
            f"{self.done} items: {', '.join(parts) or 'nothing'}{known}; "
            f"{_hours(self._heard)} of audio, {took}, {self.speed:.1f}x real time"
        )

    def _line(self) -> Table:
        table = Table.grid(padding=(0, 1))
        left = self._left()
        bar = ProgressBar(total=max(self._total, 1), completed=self.done, width=24)
        table.add_row(
            bar,
            f"{self.done}/{self._total} files",
            f"{_hours(self._heard)} of {_hours(self._seconds)}",
            f"{self.speed:.1f}x",
            f"{_clock(left)} left" if left is not None else "",
            Text(f"{self.failures} failed", style="red") if self.failures else "",
        )
        return table

    def _left(self) -> float | None:
        """By audio where that is known, else by files."""
        if self._fresh and self._seconds:
            return max(self._seconds - self._heard, 0.0) / self.speed
        fresh = self.done - self._known
        return (
            (time.monotonic() - self._started) / fresh * (self._total - self.done)
            if fresh
            else None
        )


def listing(items: Sequence[Item]) -> Iterator[str]:
    """What would be done, for a dry run."""
    todo = [item for item in items if not item.problem]
    for item in items:
        length = f"{item.seconds:.1f} s" if item.seconds is not None else "length unknown"
        problem = item.problem
        what = f"{problem.status}: {problem.reason}" if problem else length
        yield f"{shown(item.id)}\t{what}"
    unknown = sum(item.seconds is None for item in todo)
    total = sum(item.seconds or 0.0 for item in todo)
    others = f", and {unknown} of unknown length" if unknown else ""
    yield f"{len(todo)} of {len(items)} would be done: {_hours(total)} of audio{others}"


def _told(entry: Entry) -> str:
    reason = f": {entry.error}" if entry.error else ""
    return f"{entry.status} {shown(entry.id)}{reason}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}"
