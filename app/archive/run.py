"""A run: every item taken to its outcome, so many at a time, one failure hurting no other.

Bounded on purpose: a client that overruns a service has most of its failures to itself to thank
for. What is in the queue when a run ends, however it ends, is asked for by the next one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from app.archive import outputs
from app.archive.items import Item, Status, Unreadable, mark
from app.archive.outputs import FORMATS, TIMED, Names, Target
from app.archive.report import FINAL, Entry, Report
from app.archive.server import Refused, Server

GONE = frozenset({404, 410})
NO_PLACE = "there is no place beside it: name one with --out"


class Watcher(Protocol):
    """Is told of each outcome, on the thread of the run."""

    def finished(self, entry: Entry, *, fresh: bool) -> None:
        """``fresh``: by this run; else it was known before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    target: Target
    formats: tuple[str, ...]
    fields: dict[str, str]
    """Of every job's form."""
    in_flight: int = 16
    force: bool = False
    """Do even what is done, anew."""
    overwrite: bool = False
    """Replace outputs that are not known to be of an earlier run."""

    def form(self, item: Item) -> dict[str, str]:
        timed = {"timestamps": "true"} if TIMED & set(self.formats) else {}
        forced = {"force": "true"} if self.force else {}
        return {**self.fields, **timed, **item.options, **forced}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    item: Item
    stem: Path
    wanted: dict[str, Path]
    mark: str
    pending: str | None
    """A job of an earlier run that may still be at it."""

    def entry(self, status: Status, **values: Any) -> Entry:
        return Entry(
            id=self.item.id,
            status=status,
            mark=self.mark,
            stem=str(self.stem),
            **{"seconds": self.item.seconds, **values},
        )


Connect = Callable[[], AbstractContextManager[Server]]


class Run:
    def __init__(
        self, plan: Plan, connect: Connect, report: Report, watcher: Watcher, stop: threading.Event
    ) -> None:
        """``connect`` is called once there is something to do, which may start a service."""
        self._plan, self._connect, self._report = plan, connect, report
        self._watcher, self._stop = watcher, stop
        self._running: set[Future[Entry]] = set()

    def run(self, items: Sequence[Item]) -> list[Entry]:
        """The outcome of each item. Raises KeyboardInterrupt or Away; the report is then whole."""
        names = Names(self._plan.target, items, self._report.entries)
        tasks = [task for item in items if (task := self._todo(item, names))]
        if tasks:
            with self._connect() as server:
                self._work_off(server, tasks)
        return [self._report.entries[item.id] for item in items]

    def _todo(self, item: Item, names: Names) -> _Task | None:
        task = self._task(item, names)
        if isinstance(task, Entry):
            self._tell(task)
            return None
        return task

    def _work_off(self, server: Server, tasks: list[_Task]) -> None:
        worker = _Worker(self._plan, server, self._report)
        with ThreadPoolExecutor(self._plan.in_flight, "archive") as pool:
            try:
                for task in tasks:
                    self._collect(self._plan.in_flight - 1)
                    self._start(pool, worker, task)
                self._collect(0)
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                self._salvage()
                raise

    def _start(self, pool: ThreadPoolExecutor, worker: _Worker, task: _Task) -> None:
        with ExitStack() as opened:
            try:
                file = None if task.pending else _opened(opened, task.item)
            except (OSError, Unreadable) as error:
                self._tell(task.entry(Status.FAILED, error=_told(error)))
                return
            # Opened here, in order, as an archive is read; closed by the thread that sends it.
            self._running.add(pool.submit(worker.work, task, file, opened.pop_all()))

    def _collect(self, left: int) -> None:
        """Wait until no more than so many are in flight."""
        while len(self._running) > left:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                self._tell(future.result())

    def _salvage(self) -> None:
        """What was finished while the run was ending."""
        for future in self._running:
            if not future.cancelled() and future.exception() is None:
                self._tell(future.result())

    def _tell(self, entry: Entry) -> None:
        known = self._report.entries.get(entry.id)
        if known != entry:
            self._report.write(entry)
        self._watcher.finished(entry, fresh=known != entry)

    def _task(self, item: Item, names: Names) -> _Task | Entry:
        """What there is to do, or its outcome where that is nothing."""
        if item.problem:
            return Entry(id=item.id, status=item.problem.status, error=item.problem.reason)
        stem = names.stem(item)
        if stem is None:
            return Entry(id=item.id, status=Status.FAILED, error=NO_PLACE)
        known = self._report.entries.get(item.id)
        work = mark(item, {**self._plan.form(item), "force": ""})
        ours = known is not None and known.mark == work and not self._plan.force
        every = outputs.paths(stem, self._plan.formats)
        begun = ours and known is not None and known.status is Status.SUBMITTED
        wanted = every if begun or self._replaces(known, work) else _missing(every)
        if not wanted:
            if ours and known and known.status in FINAL:
                return known
            return Entry(id=item.id, status=Status.EXISTS, seconds=item.seconds, stem=str(stem))
        try:
            outputs.require_writable(stem)
        except OSError as error:
            return Entry(id=item.id, status=Status.FAILED, error=_unwritten(stem, error))
        pending = known.job if begun and known else None
        return _Task(item=item, stem=stem, wanted=wanted, mark=work, pending=pending)

    def _replaces(self, known: Entry | None, work: str) -> bool:
        """Outputs of other bytes or options, by an earlier run, are out of date."""
        stale = known is not None and known.status in FINAL and known.mark != work
        return self._plan.overwrite or self._plan.force or stale


class _Worker:
    """What is done for one task, on a thread of the pool."""

    def __init__(self, plan: Plan, server: Server, report: Report) -> None:
        self._plan, self._server, self._report = plan, server, report

    def work(self, task: _Task, file: BinaryIO | None, opened: ExitStack) -> Entry:
        try:
            with opened:
                job_id = task.pending or self._submit(task, file)
            job = self._finished(task, job_id)
            if job["status"] != "succeeded":
                message = (job["error"] or {}).get("message", f"the job is {job['status']}")
                return task.entry(Status.FAILED, error=message, job=job["id"])
            return self._fetched(task, job)
        except Refused as error:
            return task.entry(Status.FAILED, error=str(error))
        except Unreadable as error:
            return task.entry(Status.FAILED, error=str(error))
        except OSError as error:
            return task.entry(Status.FAILED, error=_unwritten(task.stem, error))

    def _submit(self, task: _Task, file: BinaryIO | None) -> str:
        form = self._plan.form(task.item)
        job_id = self._server.submit(form, file, outputs.shown(task.item.name.name))
        self._report.write(task.entry(Status.SUBMITTED, job=job_id))
        return job_id

    def _finished(self, task: _Task, job_id: str) -> dict[str, Any]:
        """The job once it is final; one that is gone from an earlier run is submitted again."""
        try:
            return self._server.finished(job_id)
        except Refused as error:
            if error.status not in GONE or not task.pending:
                raise
        with ExitStack() as opened:
            again = self._submit(task, _opened(opened, task.item))
        return self._finished(replace(task, pending=None), again)

    def _fetched(self, task: _Task, job: dict[str, Any]) -> Entry:
        text = self._server.result(job["id"], FORMATS["txt"])
        for suffix, path in task.wanted.items():
            body = text if suffix == "txt" else self._server.result(job["id"], FORMATS[suffix])
            with outputs.writing(path) as file:
                file.write(body)
        metrics = job["metrics"] or {}
        every = outputs.paths(task.stem, self._plan.formats)
        return task.entry(
            Status.REUSED if metrics.get("reused") else Status.DONE,
            seconds=metrics.get("audio_seconds", task.item.seconds),
            words=len(text.decode().split()),
            model=job["model"],
            took=metrics.get("run_seconds"),
            outputs=[str(path) for path in every.values()],
            job=job["id"],
        )


def _opened(stack: ExitStack, item: Item) -> BinaryIO | None:
    return stack.enter_context(item.source.open()) if item.source else None


def _missing(every: dict[str, Path]) -> dict[str, Path]:
    return {suffix: path for suffix, path in every.items() if not _is_there(path)}


def _is_there(path: Path) -> bool:
    """Also a link that leads nowhere is something that is there; a name that is too long is not."""
    return os.path.lexists(path)


def _told(error: OSError | Unreadable) -> str:
    return f"cannot be read: {_reason(error)}" if isinstance(error, OSError) else str(error)


def _unwritten(stem: Path, error: OSError) -> str:
    return f"cannot be written to {outputs.shown(stem.parent)}: {_reason(error)}"


def _reason(error: OSError) -> str:
    """Not every one comes from the system."""
    return error.strerror or f"not found: {error}"
