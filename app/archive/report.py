"""The report: one JSON line for each thing that a run has to say of an item, the last one holding.

It is written as things happen, so that a run that is killed has said all it knew; the next one
reads it and does only what is missing. At its end a run rewrites it with one line an item.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self

from app.archive.items import Status

FINAL = frozenset({Status.DONE, Status.REUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Of one item."""

    id: str
    status: Status
    seconds: float | None = None
    """Of audio."""
    words: int | None = None
    model: str | None = None
    error: str | None = None
    took: float | None = None
    """Seconds of work by the worker."""
    outputs: list[str] = field(default_factory=list)
    mark: str = ""
    """Of the bytes and the options that it was."""
    job: str | None = None
    stem: str = ""
    """Of the outputs, without the suffix of a format."""

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """None for a line that was cut short by a death, or is of something else."""
        try:
            values = json.loads(line)
            known = {item.name for item in fields(cls)}
            given = {name: value for name, value in values.items() if name in known}
            return cls(**{**given, "status": Status(given["status"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def line(self) -> str:
        # ASCII: JSON escapes even the halves of characters that stand for bytes that are not UTF-8.
        return json.dumps(asdict(self)) + "\n"


class InUse(RuntimeError):
    """Another run writes this report."""


class Report:
    """Held by one run at a time."""

    def __init__(self, path: Path) -> None:
        """Raises InUse or OSError."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._file: IO[str] = path.open("a+", encoding="ascii", errors="replace")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InUse(f"another run writes {path}") from None
        self._file.seek(0)
        # A death while it was rewritten has left a copy.
        lines = [*_lines(self._copy), *self._file]
        parsed = [entry for line in lines if (entry := Entry.parse(line))]
        self.entries: dict[str, Entry] = {entry.id: entry for entry in parsed}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def _copy(self) -> Path:
        return self.path.with_name(f"{self.path.name}.copy")

    def write(self, entry: Entry) -> None:
        """From any thread."""
        with self._lock:
            self.entries[entry.id] = entry
            self._file.write(entry.line())
            self._file.flush()

    def rewrite(self) -> None:
        """One line an item: in place, since the file itself is what is locked."""
        text = "".join(entry.line() for entry in self.entries.values())
        self._copy.write_text(text, encoding="ascii")
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._copy.unlink()

    def write_csv(self, path: Path) -> None:
        """For people and their spreadsheets; a name that is not UTF-8 is shown with escapes."""
        names = [item.name for item in fields(Entry)]
        with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            for entry in self.entries.values():
                writer.writerow(_flat(asdict(entry)))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii", errors="replace").splitlines() if path.exists() else []


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "outputs": " ".join(values["outputs"])}
