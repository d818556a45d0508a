"""How a pull shows what it does: bars on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from models.sources.base import Report, megabytes


class PullProgress:
    """Implements models.sources.base.Progress."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)

    def line(self, text: str) -> None:
        self.console.print(text, markup=False)

    @contextmanager
    def track(self, name: str, total: int) -> Iterator[Report]:
        if not self.console.is_terminal:
            self.line(f"{name} ({megabytes(total)})")
            yield lambda _done: None
            return
        with Progress(*_columns(), console=self.console) as bars:
            bar = bars.add_task(name, total=total)
            # a client may write more than the file, for example a second copy of it
            yield lambda done: bars.update(bar, completed=min(done, total))
            bars.update(bar, completed=total)


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
