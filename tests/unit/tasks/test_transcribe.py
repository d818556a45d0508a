"""What a model that decodes by itself is given, and how its text and its stopping are passed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from redis import RedisError

from app.broker import Piece
from app.clock import now
from app.db import queries
from app.jobs import lifecycle
from app.jobs.errors import WORKER_LOST
from app.states import JobState, Kind, Lane
from models.base import GivenUp, TranscribeOptions
from models.transcript import Transcript, Usage
from tasks import attempt as attempt_module
from tasks.draining import Draining
from tasks.heartbeat import Heartbeat
from tests.inprocess import add_job, get_job

STREAM = {"sync": True, "options": {"stream": True}}


@pytest.fixture(autouse=True)
def _ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "ASK_SECONDS", -1.0)


@pytest.fixture
def chat(provider):
    """Tells three pieces; ``between`` is called before each."""

    class Chat(type(provider)):
        between: Callable[[], None] = staticmethod(lambda: None)
        recordings: list[bytes]

        def transcribe_recording(self, data: bytes, options: TranscribeOptions) -> Transcript:
            self.recordings.append(data)
            self.options = options
            for piece in (" one", " two", " three"):
                self.between()
                if options.cancelled():
                    raise GivenUp("stopped")
                options.on_text(piece)
            return Transcript(
                text=" one two three", language="", duration=1.5, usage=Usage(input_tokens=5)
            )

    found = Chat("chat")
    found.recordings = []
    found.info = replace(found.info, streams=True, translates=False)
    return found


@pytest.fixture
def run(services, make_runner, chat):
    def work(job: Any) -> Any:
        runner = make_runner(services, transcription=chat)
        runner.run(job.id)
        return get_job(services, job.id)

    return work


def told(services, job_id: str) -> list[Piece]:
    return [piece for name, piece in services.announcer.told if name == job_id]


def words(services, job_id: str) -> list[str]:
    return [piece.text for piece in told(services, job_id)]


def test_it_gets_the_recording_of_a_caller_as_it_came_in(services, run, chat, add_recording):
    job = add_recording(services, 70.0)
    done = run(job)
    assert done.state is JobState.SUCCEEDED
    assert done.metrics["audio_seconds"] == 1.5
    with services.store.open(job.input_key) as file:
        assert chat.recordings == [file.read()]


def test_on_the_bulk_lane_it_gets_windows(services, run, chat, add_recording):
    done = run(add_recording(services, 70.0, lane=Lane.BULK))
    assert done.state is JobState.SUCCEEDED
    assert chat.recordings == []
    assert len(chat.heard) == 3


def test_its_text_is_told_to_a_caller_who_asked(services, run, add_recording):
    job = add_recording(services, 1.0, **STREAM)
    run(job)
    pieces = told(services, job.id)
    assert [(piece.attempt, piece.number) for piece in pieces] == [(1, n) for n in range(4)]
    assert words(services, job.id) == ["", " one", " two", " three"]


@pytest.mark.parametrize("job", [{"sync": True}, {"options": {"stream": True}}])
def test_nobody_else_is_told(services, run, add_recording, job):
    assert run(found := add_recording(services, 1.0, **job)).state is JobState.SUCCEEDED
    assert told(services, found.id) == []


def test_windows_are_told_as_they_are_done(
    services, open_services, make_runner, provider, add_recording
):
    services = open_services(window_batch=1)
    provider.info = replace(provider.info, streams=True)
    job = add_recording(services, 70.0, **STREAM)
    make_runner(services).run(job.id)
    assert words(services, job.id) == ["", "480000", " 480000", " 160000"]


def test_whisper_tells_nothing(services, make_runner, provider, add_recording):
    job = add_recording(services, 70.0, **STREAM)
    make_runner(services).run(job.id)
    assert told(services, job.id) == []


def test_a_broker_that_is_away_costs_the_text_and_not_the_job(
    services, run, add_recording, monkeypatch
):
    def fail(*_: object) -> None:
        raise RedisError("gone")

    monkeypatch.setattr(services.announcer, "tell", fail)
    assert run(add_recording(services, 1.0, **STREAM)).state is JobState.SUCCEEDED


def test_a_cancelled_job_ends_within_the_call(services, run, chat, add_recording):
    job = add_recording(services, 1.0, **STREAM)
    chat.between = lambda: lifecycle.cancel(services, job.id)
    assert run(job).state is JobState.CANCELLED
    assert words(services, job.id) == [""]


def test_a_draining_worker_gives_the_job_back_within_the_call(
    services, make_runner, chat, add_recording
):
    job = add_recording(services, 1.0)
    runner = make_runner(services, transcription=chat)
    chat.between = runner.draining.set
    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.QUEUED


def test_a_second_attempt_tells_it_all_again(services, make_runner, chat, add_recording):
    job = add_recording(services, 1.0, **STREAM)
    runner = make_runner(services, transcription=chat)
    chat.between = lambda: runner.draining.set() if len(told(services, job.id)) == 2 else None
    runner.run(job.id)
    runner.draining = Draining()
    chat.between = lambda: None
    runner.run(job.id)
    assert [(piece.attempt, piece.text) for piece in told(services, job.id)] == [
        (1, ""),
        (1, " one"),
        (2, ""),
        (2, " one"),
        (2, " two"),
        (2, " three"),
    ]


def test_an_attempt_that_was_overtaken_stops_within_the_call(services, run, chat, add_recording):
    job = add_recording(services, 1.0, **STREAM)

    def overtake() -> None:
        lifecycle.lose(services, get_job(services, job.id), WORKER_LOST)

    chat.between = overtake
    assert run(job).state is JobState.QUEUED
    assert get_job(services, job.id).losses == 1
    assert words(services, job.id) == [""]


def test_a_kind_that_no_model_of_the_worker_serves_is_501(services, make_runner, chat):
    job = add_job(services, kind=Kind.TRANSLATION)
    make_runner(services, transcription=chat).run(job.id)
    failed = get_job(services, job.id)
    assert failed.state is JobState.FAILED
    assert failed.error["status"] == 501
    assert failed.error["message"] == "audio model kind not loaded: stt"


def test_5_4_the_heartbeat_carries_the_counters(services, make_runner, chat):
    chat.counts = lambda: {"waveform": 3}
    Heartbeat(make_runner(services, transcription=chat)).beat()
    with services.database.reading() as connection:
        (worker,) = queries.live_workers(connection, now() - timedelta(days=1))
    assert worker.audio_counts == {"waveform": 3}
