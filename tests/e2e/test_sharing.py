"""Two real workers at one recording, on either database: nothing lost, nothing done twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.db.records import Job
from app.states import JobState
from tests import engines
from tests.cluster import Cluster, Front, Process, cluster, job_id, recording
from tests.harness import calls, eventually, fake_model

WINDOWS = 14
SECONDS = 30 * WINDOWS - 10.0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    model = fake_model(tmp_path_factory.mktemp("model") / "fake", seconds=0.2)
    with ExitStack() as stack:
        changes = {}
        if request.param == "postgresql":
            postgres = stack.enter_context(engines.postgres())
            changes = {"database_url": stack.enter_context(postgres.database())}
        data = tmp_path_factory.mktemp("data")
        yield stack.enter_context(cluster(data, model, **changes))


@pytest.fixture(scope="module")
def door(house: Cluster) -> Front:
    house.start_worker()  # the front door asks for a live one before it takes a job
    return house.start_front()


@pytest.fixture(scope="module")
def expected(house: Cluster, door: Front) -> str:
    """What one worker makes of the recording."""
    done = house.wait(submit(door))
    assert house.shares(done.id) == {}
    return str(done.output_sha256)


@pytest.fixture
def workers(house: Cluster, expected: str) -> list[Process]:
    """Two live ones, and a model that has heard nothing yet."""
    while len(running(house)) < 2:
        house.start_worker()
    (house.model / "calls.log").unlink()
    return running(house)


def running(house: Cluster) -> list[Process]:
    return [one for one in house.processes if one.name == "worker" and one.popen.poll() is None]


def submit(door: Front) -> str:
    return job_id(door.hear(recording(SECONDS)))


def roles(house: Cluster, workers: list[Process], job: str) -> tuple[Process, Process]:
    """Who leads and who helps, once both have finished a window."""
    ids = {worker.pid: worker.id for worker in house.workers()}

    def both() -> bool:
        finished = {number for number, _ in house.windows(job)}
        return len({by for number, by in house.shares(job).items() if number in finished}) == 2

    eventually(both)
    leads = house.job(job).worker
    first, second = workers
    return (first, second) if ids[first.popen.pid] == leads else (second, first)


def is_as_expected(house: Cluster, done: Job, expected: str) -> bool:
    assert done.state is JobState.SUCCEEDED, done
    assert len(set(calls(house.model))) <= WINDOWS
    return done.output_sha256 == expected


def test_the_result_of_two_is_that_of_one(
    house: Cluster, door: Front, workers: list[Process], expected: str
) -> None:
    job = submit(door)
    _, helper = roles(house, workers, job)
    done = house.wait(job)
    assert is_as_expected(house, done, expected)
    assert len(calls(house.model)) == WINDOWS
    assert done.metrics is not None
    assert 0 < done.metrics["helped_seconds"] < SECONDS
    eventually(lambda: "worker_left" in helper.text)
    assert "worker_joined" in helper.text


def test_a_caller_is_served_while_both_are_at_it(
    house: Cluster, door: Front, workers: list[Process], expected: str
) -> None:
    job = submit(door)
    roles(house, workers, job)
    answer = door.hear(recording(3, pitch=0.3), prefer="wait=60")
    assert answer.status_code == 200, answer.text
    assert not house.job(job).state.final
    done = house.wait(job)
    assert done.output_sha256 == expected
    assert done.attempt == 1  # the helper made room, so the leader need not
    assert len(calls(house.model)) == WINDOWS + 1


def test_cancelling_stops_both_within_a_window(
    house: Cluster, door: Front, workers: list[Process]
) -> None:
    job = submit(door)
    _, helper = roles(house, workers, job)
    left = helper.text.count("worker_left")
    door.client.delete(f"/v1/jobs/{job}")
    before = len(calls(house.model))
    assert house.wait(job).state is JobState.CANCELLED
    eventually(lambda: helper.text.count("worker_left") > left)
    assert len(calls(house.model)) <= before + 2  # each had perhaps begun another


def test_what_a_killed_helper_had_in_hand_is_done_again(
    house: Cluster, door: Front, workers: list[Process], expected: str
) -> None:
    job = submit(door)
    _, helper = roles(house, workers, job)
    helper.kill()
    done = house.wait(job)
    assert is_as_expected(house, done, expected)
    assert (done.attempt, done.losses) == (1, 0)
    assert len(calls(house.model)) <= WINDOWS + 1


def test_a_killed_leader_s_job_goes_on_with_what_both_have_finished(
    house: Cluster, door: Front, workers: list[Process], expected: str
) -> None:
    job = submit(door)
    leader, _ = roles(house, workers, job)
    leader.kill()
    kept = set(house.windows(job))
    done = house.wait(job)
    assert is_as_expected(house, done, expected)
    assert (done.attempt, done.losses) == (2, 0)
    assert kept <= set(house.windows(job))
    assert len(calls(house.model)) <= WINDOWS + 2  # what each had in hand
