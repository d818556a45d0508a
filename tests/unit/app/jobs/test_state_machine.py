"""The life of jobs under every interleaving that hypothesis finds, on a real database."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.db import deliveries, queries
from app.db.records import Job, WindowRow
from app.jobs import lifecycle, sweep
from app.jobs.errors import STORAGE_FAILED, job_error
from app.states import JobState
from app.storage import StoredBlob
from tests import places
from tests.inprocess import add_job, close, get_job, make_services

MAX_ATTEMPTS, MAX_FAULTY = 3, 4
BAD = job_error("no", status=500, type_="server_error", code="model_failed")

# Often the one that matters most, so that older attempts try it too.
ENDS = ["succeed", "succeed", "hand back", "storage failed", "cancel", "fail"]


def a_window(number: int) -> WindowRow:
    return WindowRow(number=number, start_sample=0, end_sample=1, model="m", transcript={})


class Jobs(RuleBasedStateMachine):
    """Workers here may stop at any time, wake up much later, and do anything twice."""

    template: Path
    """A database with all tables."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        if not places.on_servers():
            shutil.copy(self.template, Path(self.folder.name) / "db.sqlite")
        self.services = make_services(
            Path(self.folder.name),
            max_attempts=MAX_ATTEMPTS,
            max_faulty_attempts=MAX_FAULTY,
            lease_seconds=10.0,
        )
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.patches = [
            patch.object(module, "now", lambda: self.now) for module in (lifecycle, sweep)
        ]
        for each in self.patches:
            each.start()
        self.ids: list[str] = []
        self.held: list[Job] = []
        self.final: dict[str, Job] = {}
        self.numbers: Counter[str] = Counter()
        self.promised: set[str] = set()
        self.succeeded: Counter[str] = Counter()

    def teardown(self) -> None:
        self.finish_everything()
        for each in self.patches:
            each.stop()
        close(self.services)
        self.folder.cleanup()

    def finish_everything(self) -> None:
        """Whatever has happened, one honest worker and the sweeper bring every job to its end."""
        for _ in range(3 * MAX_FAULTY):
            self.pass_time(100.0)
            for job_id in self.ids:
                if job := lifecycle.claim(self.services, job_id, "honest"):
                    self.succeed(job)
        assert all(get_job(self.services, job_id).state.final for job_id in self.ids)

    @initialize()
    def begin(self) -> None:
        """Most of what can go wrong begins with a job that runs."""
        self.add(told=True, late=False)
        self.deliver(self.ids[0])

    @precondition(lambda self: len(self.ids) < 2)
    @rule(told=st.booleans(), late=st.booleans())
    def submit(self, *, told: bool, late: bool) -> None:
        self.add(told=told, late=late)

    def add(self, *, told: bool, late: bool) -> None:
        deadline = self.now + timedelta(seconds=15) if late else None
        callback = "https://example.com/hook" if told else None
        job = add_job(
            self.services, created_at=self.now, callback_url=callback, deadline_at=deadline
        )
        self.ids.append(job.id)

    @rule()
    def overtake(self) -> None:
        """The lease runs out and another worker begins, while the first one may yet wake up."""
        self.pass_time(11.0)
        self.deliver(self.ids[0])

    @rule(data=st.data())
    def take_up(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.ids)))

    def deliver(self, job_id: str) -> None:
        job = lifecycle.claim(self.services, job_id, "worker")
        if job is not None:
            assert job.attempt > self.numbers[job_id]
            self.numbers[job_id] = job.attempt
            self.held.append(job)

    @rule(data=st.data(), window=st.none() | st.integers(0, 2))
    def checkpoint(self, data: st.DataObject, window: int | None) -> None:
        job = data.draw(st.sampled_from(self.held))
        kept = self.report(job, [] if window is None else [a_window(window)])
        if kept is not None:
            assert kept.attempt == job.attempt == self.numbers[job.id]
            self.held[self.held.index(job)] = kept

    def report(self, job: Job, finished: list[WindowRow]) -> Job | None:
        until = lifecycle.lease_end(self.services)
        with self.services.database.writing() as connection:
            return queries.checkpoint(
                connection, job, lease_until=until, progress=0.5, finished=finished
            )

    @rule(data=st.data(), end=st.sampled_from(ENDS))
    def end(self, data: st.DataObject, end: str) -> None:
        """Attempts stay held: one may end twice, or long after another has taken its job."""
        job = data.draw(st.sampled_from(self.held))
        match end:
            case "succeed":
                self.succeed(job)
            case "fail":
                lifecycle.fail(self.services, job, BAD)
            case "hand back":
                lifecycle.hand_back(self.services, job)
            case "storage failed":
                lifecycle.lose(self.services, job, STORAGE_FAILED)
            case _:
                lifecycle.cancelled(self.services, job)

    def succeed(self, job: Job) -> None:
        blob = StoredBlob(key=f"out/{job.id}/{job.attempt}/x", size=1, sha256="0" * 64)
        before = get_job(self.services, job.id)
        if lifecycle.succeed(self.services, job, blob) and not before.state.final:
            self.succeeded[job.id] += 1
            assert job.id not in self.promised

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        job = lifecycle.cancel(self.services, job_id)
        assert job is not None
        if not job.state.final or job.state is JobState.CANCELLED:
            self.promised.add(job_id)

    @rule(seconds=st.sampled_from([6.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        sweep.recover(self.services, self.now)
        sweep.expire(self.services, self.now)
        sweep.send(self.services, self.now)
        sweep.resend(self.services, self.now)

    @invariant()
    def a_final_state_stays_as_it_is(self) -> None:
        for job_id in self.ids:
            job = get_job(self.services, job_id)
            assert job == self.final.get(job_id, job)
            if job.state.final:
                self.final[job_id] = job

    @invariant()
    def every_row_is_consistent(self) -> None:
        for job_id in self.ids:
            job = get_job(self.services, job_id)
            running = job.state is JobState.RUNNING
            assert (job.lease_expires_at is not None) == running
            assert job.losses <= MAX_ATTEMPTS
            assert job.faults <= MAX_FAULTY
            assert not (job.state is JobState.QUEUED and job.cancel_requested)
            assert (job.output_key is not None) == (job.state is JobState.SUCCEEDED)
            assert (job.error is None) == (job.state is JobState.SUCCEEDED or not job.state.final)
            if job.output_key:
                assert job.output_key == f"out/{job.id}/{job.attempt}/x"
            assert self.succeeded[job_id] == (job.state is JobState.SUCCEEDED)

    @invariant()
    def a_final_state_is_told_once(self) -> None:
        for job_id in self.ids:
            job = get_job(self.services, job_id)
            with self.services.database.reading() as connection:
                told = len(deliveries.of_job(connection, job_id))
            assert told == (1 if job.callback_url and job.state.final else 0)


def test_no_job_is_lost_doubled_or_stuck(tmp_path: Path) -> None:
    close(make_services(tmp_path))
    Jobs.template = tmp_path / "db.sqlite"
    run_state_machine_as_test(
        Jobs,
        settings=settings(
            max_examples=30,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            database=None,
        ),
    )
