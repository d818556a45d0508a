"""Exactness under concurrency: admission, claim, shares and sweep, each on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.clock import new_id, now
from app.db import queries, retention, shares, windows
from app.db.records import Job, WindowRow
from app.errors import Busy
from app.jobs import lifecycle
from app.jobs.services import Services
from app.jobs.submit import Submission, submit
from app.jobs.sweep import recover, sweep
from app.states import JobState, Kind

THREADS = 8


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(count)))


def say(services: Services, **values: Any) -> Job:
    return submit(services, Submission(kind=Kind.SPEECH, options={"input": "Hello."}, **values))


def test_the_queue_s_bound_is_exact(services: Services) -> None:
    def ask(_: int) -> str:
        try:
            return say(services).state
        except Busy:
            return "busy"

    assert Counter(at_once(40, ask)) == {"queued": 3, "busy": 37}


def test_a_key_makes_one_job(services: Services) -> None:
    found = at_once(24, lambda _: say(services, sync=False, idempotency_key="k").id)
    assert len(set(found)) == 1


def test_a_job_is_claimed_once(services: Services) -> None:
    jobs = [say(services, sync=False) for _ in range(10)]

    def claim(number: int) -> str | None:
        job = jobs[number // THREADS]
        claimed = lifecycle.claim(services, job.id, f"wkr_{number}")
        return claimed.id if claimed else None

    claims = Counter(at_once(len(jobs) * THREADS, claim))
    del claims[None]
    assert claims == {job.id: 1 for job in jobs}


def test_of_two_ends_one_is_kept(services: Services) -> None:
    job = say(services, sync=False)
    running = lifecycle.claim(services, job.id, "wkr_1")
    assert running is not None

    def end(number: int) -> bool:
        error = {"message": str(number), "status": 500}
        return lifecycle.fail(services, running, error) is not None

    assert sum(at_once(THREADS, end)) == 1


def test_a_lost_job_is_put_back_once(services: Services) -> None:
    jobs = [say(services, sync=False) for _ in range(12)]
    for job in jobs:
        with services.database.writing() as connection:
            queries.claim(
                connection, job.id, worker="dead", now=now(), lease_until=now() - timedelta(days=1)
            )
    at_once(THREADS, lambda _: recover(services, now()))
    for job in jobs:
        with services.database.reading() as connection:
            found = queries.get_job(connection, job.id)
        assert found is not None
        assert (found.state, found.losses) == (JobState.QUEUED, 1)


def test_one_process_sweeps_at_a_time(services: Services) -> None:
    rounds = at_once(THREADS, lambda number: sweep(services, f"swp_{number}"))
    assert sum(rounds) == 1


def test_keys_of_different_owners_do_not_meet(services: Services) -> None:
    first = say(services, sync=False, idempotency_key="k", owner="key_1")
    second = say(services, sync=False, idempotency_key="k", owner="key_2")
    assert first.id != second.id


def test_a_lease_is_free_after_its_end(services: Services) -> None:
    database, moment = services.database, now()
    name = new_id("lease")
    taken = []
    for owner, when in (("a", moment), ("b", moment), ("b", moment + timedelta(seconds=11))):
        with database.writing() as connection:
            until = when + timedelta(seconds=10)
            taken.append(queries.take_lease(connection, name, owner=owner, now=when, until=until))
    assert taken == [True, False, True]


def running(services: Services) -> Job:
    job = lifecycle.claim(services, say(services, sync=False).id, "wkr_leads")
    assert job is not None
    return job


def take(services: Services, job: Job, number: int, worker: str, **lease: Any) -> bool:
    until = now() + timedelta(**(lease or {"hours": 1}))
    with services.database.writing() as connection:
        return shares.take(connection, job, number, worker=worker, lease_until=until)


def test_a_share_is_taken_once(services: Services) -> None:
    job = running(services)
    found = at_once(
        10 * THREADS, lambda number: take(services, job, number // THREADS, f"wkr_{number}")
    )
    assert sum(found) == 10


def test_a_share_left_lying_is_taken_over_and_its_first_owner_told(services: Services) -> None:
    job = running(services)
    assert take(services, job, 0, "wkr_dead", seconds=-1)
    assert take(services, job, 8, "wkr_alive")

    with services.database.writing() as connection:
        assert shares.take_over(connection, job, 0, worker="wkr_leads", now=now())
        assert not shares.take_over(connection, job, 8, worker="wkr_leads", now=now())
        assert not shares.end(connection, job, 0, worker="wkr_dead", now=now())
        assert not shares.renew(connection, job, worker="wkr_dead", now=now(), lease_until=now())


def test_a_share_counts_until_it_ends_and_belongs_to_its_attempt(services: Services) -> None:
    job = running(services)
    assert take(services, job, 8, "wkr_helps")
    assert take(services, replace(job, attempt=2), 8, "wkr_next")
    with services.database.writing() as connection:
        assert shares.in_hand(connection, job, now()) == {8}
        assert shares.busy_workers(connection, now()) == {"wkr_helps", "wkr_next"}
        assert shares.end(connection, job, 8, worker="wkr_helps", now=now())
        assert shares.in_hand(connection, job, now()) == set()
        assert shares.busy_workers(connection, now()) == {"wkr_next"}
        retention.mark_purged(connection, job.id, now())
        assert shares.busy_workers(connection, now()) == set()


def test_windows_of_several_workers_are_one_attempt_s(services: Services) -> None:
    job = running(services)

    def keep(number: int) -> bool:
        row = WindowRow(
            number=number,
            start_sample=number * 10,
            end_sample=number * 10 + 10,
            model="m",
            transcript={"n": number},
        )
        with services.database.writing() as connection:
            return queries.keep_windows(connection, job, [row]) is not None

    assert all(at_once(20, keep))
    with services.database.reading() as connection:
        rows = windows.get(connection, job.id, first=3, last=5)
        assert windows.count_samples(connection, job.id, "m") == 200
        assert windows.count_samples(connection, job.id, "another") == 0
    assert [row.transcript["n"] for row in rows] == [3, 4, 5]
    lifecycle.hand_back(services, job)
    assert not keep(99)
