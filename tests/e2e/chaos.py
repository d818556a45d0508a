"""Chaos with a seed: mixed jobs while workers, broker and front door are killed, stopped, restarted.

``python -m tests.e2e.chaos --seed 1 --jobs 300 --workers 4 --seconds 180`` prints the figures. Every
job must end as it would have without any of it, with one result.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import select

from app.db.tables import idempotency_keys
from app.states import JobState
from tests.cluster import Cluster, cluster, recording
from tests.harness import fake_model

LENGTHS = (1, 40, 100)  # seconds of audio: one, two and four windows
PITCHES = 4
TEXTS = ("Short.", "One. Two. Three. Four. Five. Six. Seven. Eight. Nine.", "RAISE")
FINISH_SECONDS = 240.0


@dataclass
class Plan:
    """One job to be, and what is known of it."""

    number: int
    request: tuple[str, Any]
    waits: bool
    job_id: str = ""


@dataclass
class Chaos:
    house: Cluster
    seed: int
    workers: int
    port: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.port = self.house.start_front().port
        self.running = [self.house.start_worker() for _ in range(self.workers)]
        self.audio = {
            (seconds, pitch): recording(seconds, pitch=0.05 + 0.01 * pitch)
            for seconds in LENGTHS
            for pitch in range(PITCHES)
        }

    def plans(self, count: int) -> list[Plan]:
        return [self._plan(number) for number in range(count)]

    def _plan(self, number: int) -> Plan:
        waits = self.random.random() < 0.2
        if self.random.random() < 0.4:
            return Plan(number, ("speech", self.random.choice(TEXTS)), waits)
        return Plan(number, ("recording", self.random.choice(list(self.audio))), waits)

    def submit(self, plan: Plan, *, key: str) -> None:
        """As a patient client does it: again and again under one key."""
        kind, what = plan.request
        prefer = "respond-async, wait=5" if plan.waits else "respond-async"
        headers = {"Prefer": prefer, "Idempotency-Key": key}
        while True:
            with (
                suppress(httpx2.TransportError),
                httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10) as client,
            ):
                if kind == "speech":
                    body = {"model": "m", "input": what}
                    answer = client.post("/v1/audio/speech", json=body, headers=headers)
                else:
                    files = {"file": ("a.flac", self.audio[what])}
                    answer = client.post("/v1/audio/transcriptions", files=files, headers=headers)
                if answer.status_code != 503:
                    expected = 500 if what == "RAISE" else 200
                    assert answer.status_code in (202, expected), answer.text
                    plan.job_id = self._job_of(key)
                    return
            self.counts["client retries"] += 1
            time.sleep(0.2)

    def _job_of(self, key: str) -> str:
        with self.house.database.reading() as connection:
            query = select(idempotency_keys.c.job_id).where(idempotency_keys.c.key == key)
            return str(connection.execute(query).scalar_one())

    def disturb(self) -> None:
        """One random blow, and what an operator does about it a moment later."""
        blow = self.random.choices(
            (
                "kill worker",
                "stop worker",
                "quit worker",
                "kill broker",
                "empty broker",
                "kill front",
            ),
            (4, 2, 2, 1, 1, 2),
        )[0]
        self.counts[blow] += 1
        if blow.endswith("worker"):
            self._hurt_worker(blow)
        elif blow.endswith("broker"):
            self._hurt_broker(blow)
        else:
            self.house.fronts[-1].process.kill()
            time.sleep(self.random.uniform(0, 1))
            self.house.launch_front(self.port)

    def _hurt_worker(self, blow: str) -> None:
        worker = self.random.choice(self.running)
        number = {"kill": signal.SIGKILL, "stop": signal.SIGTERM, "quit": signal.SIGQUIT}
        worker.signal(number[blow.split(maxsplit=1)[0]])
        worker.popen.wait(60)
        self.running.remove(worker)
        self.running.append(self.house.launch_worker())

    def _hurt_broker(self, blow: str) -> None:
        if blow == "empty broker":
            self.house.empty_broker()
        else:
            self.house.broker.kill()
        time.sleep(self.random.uniform(0, 2))
        self.house.start_broker()


def run(data: Path, *, seed: int, jobs: int, workers: int, seconds: float) -> dict[str, Any]:
    """The figures; raises AssertionError when a job ended wrong."""
    model = fake_model(data / "fake", seconds=0.1)
    # A worker is killed far more often here than by any one input.
    with cluster(data / "data", model, max_attempts=50, max_faulty_attempts=50) as house:
        chaos = Chaos(house, seed, workers)
        plans = chaos.plans(jobs)
        submitting = threading.Thread(target=_submit_all, args=(chaos, plans, seconds), daemon=True)
        started = time.monotonic()
        submitting.start()
        while time.monotonic() - started < seconds:
            chaos.disturb()
            time.sleep(chaos.random.uniform(0, 3))
        submitting.join()
        done = [house.wait(plan.job_id, FINISH_SECONDS) for plan in plans]
        took = time.monotonic() - started
        figures = _judge(chaos, plans, done)
        return {"seed": seed, "jobs": jobs, "seconds": round(took, 1), **figures}


def _submit_all(chaos: Chaos, plans: list[Plan], seconds: float) -> None:
    threads = []
    for plan in plans:
        thread = threading.Thread(
            target=chaos.submit, args=(plan,), kwargs={"key": f"p{plan.number}"}, daemon=True
        )
        thread.start()
        threads.append(thread)
        time.sleep(0.8 * seconds / len(plans))
    for thread in threads:
        thread.join()


def _judge(chaos: Chaos, plans: list[Plan], done: list[Any]) -> dict[str, Any]:
    house = chaos.house
    assert len({plan.job_id for plan in plans}) == len(plans)
    with house.database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one()
    assert rows == len(plans), "a request made more than one job"
    undisturbed = _references(chaos, {plan.request for plan in plans})
    for plan, job in zip(plans, done, strict=True):
        wanted = JobState.FAILED if plan.request[1] == "RAISE" else JobState.SUCCEEDED
        assert job.state is wanted, (plan, job)
        if wanted is JobState.SUCCEEDED:
            assert job.output_sha256 == undisturbed[plan.request], plan
            with house.store.open(job.output_key) as file:
                assert file.read(1)
    ours = {job.id for job in done}
    outputs = {blob.rpartition("/")[0] for blob in house.blobs() if blob.startswith("out/")}
    results = {job.output_key.rpartition("/")[0] for job in done if job.output_key}
    left = {folder for folder in outputs if folder.split("/")[1] in ours} - results
    return {
        "ended": dict(Counter(str(job.state) for job in done)),
        "attempts": sum(job.attempt for job in done),
        "outputs of dead attempts": len(left),
        "blows": dict(chaos.counts),
    }


def _references(chaos: Chaos, requests: set[tuple[str, Any]]) -> dict[tuple[str, Any], str]:
    """What each request gives when nobody disturbs it."""
    found: dict[tuple[str, Any], str] = {}
    for number, request in enumerate(sorted(requests, key=str)):
        plan = Plan(number, request, waits=False)
        chaos.submit(plan, key=f"reference {number}")
        found[request] = chaos.house.wait(plan.job_id).output_sha256 or ""
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=180.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(
            Path(folder),
            seed=given.seed,
            jobs=given.jobs,
            workers=given.workers,
            seconds=given.seconds,
        )
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
