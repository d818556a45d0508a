"""The life of jobs under every interleaving that hypothesis finds, on a real database."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from app.db import deliveries, queries
from app.db.records import Job, WindowRow
from app.jobs import lifecycle, sweep
from app.jobs.errors import STORAGE_FAILED, job_error
from app.states import JobState
from app.storage import StoredBlob
from tests.inprocess import add_job, close, get_job, make_services

MAX_ATTEMPTS, MAX_FAULTY = 3, 4
BAD = job_error("no", status=500, type_="server_error", code="model_failed")


class Jobs(RuleBasedStateMachine):
    """Workers here may stop at any time, wake up much later, and do anything twice."""

    jobs = Bundle("jobs")
    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
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

    @rule(target=jobs, told=st.booleans(), late=st.booleans())
    def submit(self, *, told: bool, late: bool) -> str:
        deadline = self.now + timedelta(seconds=15) if late else None
        callback = "https://example.com/hook" if told else None
        job = add_job(
            self.services, created_at=self.now, callback_url=callback, deadline_at=deadline
        )
        self.ids.append(job.id)
        return job.id

    @rule(target=attempts, job_id=jobs)
    def deliver(self, job_id: str):
        job = lifecycle.claim(self.services, job_id, "worker")
        if job is None:
            return multiple()
        assert job.attempt > self.numbers[job_id]
        self.numbers[job_id] = job.attempt
        return job

    @rule(target=attempts, job=attempts, window=st.integers(0, 3), new=st.booleans())
    def checkpoint(self, job: Job, window: int, *, new: bool):
        row = WindowRow(number=window, start_sample=0, end_sample=1, model="m", transcript={})
        with self.services.database.writing() as connection:
            kept = queries.checkpoint(
                connection,
                job,
                lease_until=lifecycle.lease_end(self.services),
                progress=0.5,
                finished=[row] if new else [],
            )
        if kept is None:
            return multiple()
        assert kept.attempt == job.attempt == self.numbers[job.id]
        return kept

    @rule(job=attempts)
    def succeed(self, job: Job) -> None:
        blob = StoredBlob(key=f"out/{job.id}/{job.attempt}/x", size=1, sha256="0" * 64)
        before = get_job(self.services, job.id)
        done = lifecycle.succeed(self.services, job, blob)
        if done and not before.state.final:
            self.succeeded[job.id] += 1
            assert job.id not in self.promised

    @rule(job=attempts)
    def fail(self, job: Job) -> None:
        lifecycle.fail(self.services, job, BAD)

    @rule(job=attempts)
    def hand_back(self, job: Job) -> None:
        lifecycle.hand_back(self.services, job)

    @rule(job=attempts)
    def lose_the_store(self, job: Job) -> None:
        lifecycle.lose(self.services, job, STORAGE_FAILED)

    @rule(job=attempts)
    def stop_for_a_cancel(self, job: Job) -> None:
        lifecycle.cancelled(self.services, job)

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        job = lifecycle.cancel(self.services, job_id)
        assert job is not None
        if not job.state.final or job.state is JobState.CANCELLED:
            self.promised.add(job_id)

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]))
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
            assert job.attempt == self.numbers[job_id] or job.attempt > self.numbers[job_id]
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


def test_no_job_is_lost_doubled_or_stuck() -> None:
    run_state_machine_as_test(
        Jobs,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            database=None,
        ),
    )
