"""A long speech keeps what is said of it: what a later attempt takes over, and what it does not."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from app.clock import now
from app.db import windows
from app.db.records import Job
from app.jobs import lifecycle, retention, sweep
from app.jobs.errors import WORKER_LOST
from app.jobs.services import Services
from app.states import JobState, Lane
from app.storage import StorageError, keys
from models.base import Samples, Utterance
from tasks.runner import Runner
from tests.inprocess import add_job, get_job

GROUP = 4  # utterances
TEXT = "".join(f"Sentence {n} of the book." for n in range(10))  # three groups


@pytest.fixture
def provider(provider):
    """Says something else for each text, voice and speed."""

    class Speaker(type(provider)):
        def synthesize(
            self, utterances: Sequence[Utterance], *, voice: str | None, speed: float
        ) -> list[Samples]:
            return [self._speak(item.text, f"{voice} {speed}") for item in utterances]

        def _speak(self, text: str, manner: str) -> Samples:
            self._say(text)
            seed = np.frombuffer(f"{manner} {text}".encode(), np.uint8)
            chance = np.random.default_rng(seed)
            return chance.uniform(-1, 1, 100 + chance.integers(50)).astype(np.float32)

    return Speaker()


def add_speech(services: Services, text: str = TEXT, **values: Any) -> Job:
    values.setdefault("lane", Lane.BULK)
    return add_job(services, options={"input": text, "voice": "a", "force": True}, **values)


def parts(services: Services, job: Job) -> list[str]:
    return sorted(blob.key for blob in services.store.list(keys.parts(job.id)))


def rows(services: Services, job: Job) -> list[int]:
    with services.database.reading() as connection:
        return [row.number for row in windows.get(connection, job.id)]


def speech(services: Services, job_id: str) -> tuple[bytes, list[dict[str, Any]]]:
    """The WAV and its timing."""
    job = get_job(services, job_id)
    assert job.state is JobState.SUCCEEDED
    with services.store.open(job.output_key) as file:
        wav = file.read()
    with services.store.open(keys.timing(job.id, job.attempt)) as file:
        return wav, json.load(file)


@pytest.fixture
def whole(services, make_runner, provider):
    """What an undisturbed attempt says; the provider then forgets about it."""
    job = add_speech(services)
    make_runner(services).run(job.id)
    provider.said.clear()
    return speech(services, job.id)


def stop_after(runner: Runner, provider: Any, count: int) -> None:
    """Have the worker drain while it says the utterance after so many."""
    provider.before = lambda: runner.draining.set() if len(provider.said) == count else None


def stopped(services: Services, make_runner: Any, provider: Any, groups: int = 2) -> Job:
    """A job whose first attempt was stopped after so many groups."""
    job = add_speech(services)
    runner = make_runner(services)
    stop_after(runner, provider, GROUP * groups - 1)
    runner.run(job.id)
    provider.before = lambda: None
    assert get_job(services, job.id).state is JobState.QUEUED
    assert len(parts(services, job)) == groups
    return job


def test_a_short_speech_keeps_nothing_on_its_way(services, make_runner, provider) -> None:
    job = add_speech(services, "One. Two. Three. Four.")
    made: list[str] = []
    provider.before = lambda: made.extend(parts(services, job))
    make_runner(services).run(job.id)
    assert len(speech(services, job.id)[1]) == 4
    assert (made, rows(services, job)) == ([], [])


def test_a_later_attempt_says_only_the_rest_and_the_bytes_are_the_same(
    services, make_runner, provider, whole
) -> None:
    job = stopped(services, make_runner, provider)
    assert get_job(services, job.id).progress == pytest.approx(2 / 3)
    make_runner(services, "wkr_2").run(job.id)
    assert len(provider.said) == len(set(provider.said)) == 10
    assert speech(services, job.id) == whole
    assert parts(services, job) == []
    assert get_job(services, job.id).losses == 0


def test_so_does_the_attempt_after_a_death(services, make_runner, provider, whole) -> None:
    job = add_speech(services)

    def die() -> None:
        if len(provider.said) == 2 * GROUP + 1:
            lifecycle.lose(services, get_job(services, job.id), WORKER_LOST)
            raise KeyboardInterrupt

    provider.before = die
    with pytest.raises(KeyboardInterrupt):
        make_runner(services).run(job.id)
    provider.before = lambda: None
    said = len(provider.said)
    make_runner(services, "wkr_2").run(job.id)
    assert provider.said[said:] == [f"Sentence {n} of the book" for n in (8, 9)]
    assert speech(services, job.id) == whole


def test_a_waiting_caller_comes_first_but_only_after_some_work(
    services, make_runner, provider, whole
) -> None:
    job = add_speech(services)
    caller = add_job(services, sync=True, options={"input": "Now."})
    runner = make_runner(services)
    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.QUEUED
    assert len(provider.said) == GROUP
    runner.run(job.id)
    assert len(provider.said) == 2 * GROUP  # it got on, although the caller still waits
    runner.run(caller.id)
    runner.run(job.id)
    assert speech(services, job.id) == whole


def test_a_cancelled_speech_stops_after_the_group_in_hand(services, make_runner, provider) -> None:
    job = add_speech(services)
    provider.before = lambda: lifecycle.cancel(services, job.id)
    make_runner(services).run(job.id)
    assert get_job(services, job.id).state is JobState.CANCELLED
    assert len(provider.said) == GROUP


def test_what_another_model_has_said_is_not_used(services, make_runner, provider, whole) -> None:
    job = stopped(services, make_runner, provider)
    other = type(provider)("another")
    make_runner(services, "wkr_2", speech=other).run(job.id)
    assert len(other.said) == 10
    assert speech(services, job.id) == whole
    assert parts(services, job) == []


def test_another_plan_of_the_same_text_is_said_anew(
    services, make_runner, provider, whole, monkeypatch
) -> None:
    job = stopped(services, make_runner, provider)
    provider.said.clear()
    plan = type(provider).plan_speech

    def newer(self: Any, text: str) -> list[Utterance]:
        first, *others = plan(self, text)
        return [Utterance(text=first.text, phonemes="better"), *others]

    monkeypatch.setattr(type(provider), "plan_speech", newer)
    make_runner(services, "wkr_2").run(job.id)
    assert provider.said == [f"Sentence {n} of the book" for n in (0, 1, 2, 3, 8, 9)]


@pytest.mark.parametrize("harm", ["gone", "short"])
def test_a_part_that_is_damaged_is_said_again(services, make_runner, provider, whole, harm) -> None:
    job = stopped(services, make_runner, provider)
    provider.said.clear()
    key = parts(services, job)[0]
    with services.store.open(key) as file:
        said = file.read()
    services.store.delete(key)
    if harm == "short":
        services.store.put(key, io.BytesIO(said[:-2]), content_type="application/octet-stream")
    make_runner(services, "wkr_2").run(job.id)
    assert provider.said == [f"Sentence {n} of the book" for n in (0, 1, 2, 3, 8, 9)]
    assert speech(services, job.id) == whole


def test_an_attempt_that_was_overtaken_leaves_the_other_s_parts_alone(
    services, make_runner, provider, whole
) -> None:
    job = stopped(services, make_runner, provider, groups=1)
    late = make_runner(services, "wkr_late")

    def overtake() -> None:
        if len(provider.said) == GROUP + 1:
            provider.before = lambda: None
            sweep.recover(services, now() + timedelta(hours=1))
            fast = make_runner(services, "wkr_fast")
            stop_after(fast, provider, len(provider.said) + 3)
            fast.run(job.id)
            provider.before = lambda: None

    provider.before = overtake
    late.run(job.id)  # it has lost its lease, and stops
    assert get_job(services, job.id).attempt == 3
    provider.said.clear()
    make_runner(services, "wkr_4").run(job.id)
    assert speech(services, job.id) == whole
    assert provider.said == [f"Sentence {n} of the book" for n in (8, 9)]
    assert parts(services, job) == []


def test_parts_that_cannot_be_deleted_do_not_cost_the_result(
    services, make_runner, provider, monkeypatch
) -> None:
    job = add_speech(services)

    def fail(_key: str) -> None:
        raise StorageError("away")

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "delete", fail)
        make_runner(services).run(job.id)
    assert get_job(services, job.id).state is JobState.SUCCEEDED
    assert len(parts(services, job)) == 2
    retention.purge(services, now() + timedelta(days=365))
    assert parts(services, job) == []


def test_parts_of_a_cancelled_speech_go_with_it(services, make_runner, provider) -> None:
    job = stopped(services, make_runner, provider)
    lifecycle.cancel(services, job.id)
    retention.purge(services, now() + timedelta(days=365))
    assert parts(services, job) == []
    assert rows(services, job) == []
