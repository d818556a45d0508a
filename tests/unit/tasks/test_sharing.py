"""Several workers at one recording, one inside the other: a helper runs while the leader hears."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event, select

from app import broker
from app.clock import now
from app.db import queries, shares, tables, windows
from app.db.records import Job
from app.jobs import lifecycle
from app.jobs.errors import STUCK, WORKER_LOST
from app.jobs.services import Services
from app.states import JobState, Kind, Lane
from models.base import Samples, TranscribeOptions
from tasks import attempt as attempt_module
from tasks import sharing
from tasks.attempt import Interrupted
from tasks.heartbeat import Heartbeat
from tests.inprocess import add_job, get_job

SECONDS = 170.0  # six windows
LEADER, HELPER = "wkr_1", "wkr_2"


@pytest.fixture
def services(open_services: Callable[..., Services]) -> Services:
    return open_services(window_batch=1)


@pytest.fixture(autouse=True)
def _ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "ASK_SECONDS", -1.0)


@dataclass
class Pair:
    """A leader and a helper, each with a model of its own."""

    services: Services
    job: Job
    leader: Any
    helper: Any
    leads: Any
    helps: Any
    while_waiting: Callable[[], None] = field(default=lambda: pytest.fail("nobody to wait for"))

    def run(self, at: int, action: Callable[[], None]) -> Job:
        """The job after the leader's work, with the action before its window ``at``."""

        def before() -> None:
            if len(self.leads.heard) == at:
                action()

        self.leads.before = before
        self.leader.run(self.job.id)
        return get_job(self.services, self.job.id)

    def help(self) -> None:
        self.helper.help(self.job.id, self.job.attempt + 1)

    def text(self, job: Job) -> str:
        with self.services.store.open(job.output_key) as file:
            return json.load(file)["text"]

    def workers(self) -> dict[int, str]:
        """Who took each share."""
        query = select(tables.shares.c.number, tables.shares.c.worker)
        with self.services.database.reading() as connection:
            return dict(tuple(row) for row in connection.execute(query))

    def windows(self) -> list[int]:
        with self.services.database.reading() as connection:
            return [row.number for row in windows.get(connection, self.job.id)]

    def invitations(self) -> int:
        return broker.count_messages(self.services.celery, broker.HELP_QUEUE)


@pytest.fixture
def pair(services, make_runner, provider, add_recording, monkeypatch) -> Pair:
    leads, helps = provider, type(provider)()
    made = Pair(
        services,
        add_recording(services, SECONDS, lane=Lane.BULK),
        make_runner(services, LEADER, transcription=leads),
        make_runner(services, HELPER, transcription=helps),
        leads,
        helps,
    )
    monkeypatch.setattr(sharing, "time", SimpleNamespace(sleep=lambda _: made.while_waiting()))
    return made


def alone(pair: Pair, make_runner, add_recording) -> str:
    """What one worker makes of the same recording."""
    job = add_recording(pair.services, SECONDS)
    make_runner(pair.services, "wkr_alone").run(job.id)
    return pair.text(get_job(pair.services, job.id))


def test_both_hear_some_and_the_result_is_that_of_one(pair, make_runner, add_recording) -> None:
    done = pair.run(2, pair.help)
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 1)
    assert (len(pair.leads.heard), len(pair.helps.heard)) == (3, 3)
    assert pair.workers() == {1: LEADER, 2: LEADER, 3: HELPER, 4: HELPER, 5: HELPER}
    assert done.metrics["helped_seconds"] == sum(pair.helps.heard) / 16_000
    assert done.metrics["audio_seconds"] == SECONDS
    pair.leads.before = lambda: None
    assert pair.text(done) == alone(pair, make_runner, add_recording)


def test_a_worker_that_is_alone_writes_nothing_for_it_and_asks_once(
    services, make_runner, provider, add_recording
) -> None:
    job, statements = add_recording(services, SECONDS), []
    runner = make_runner(services)

    @event.listens_for(services.database.engine, "before_cursor_execute")
    def _note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    runner.run(job.id)
    assert get_job(services, job.id).state is JobState.SUCCEEDED
    assert not any("shares" in statement for statement in statements)
    assert sum("FROM workers" in statement for statement in statements) == 4  # of five checkpoints
    assert broker.count_messages(services.celery, broker.HELP_QUEUE) == 0


def test_whoever_is_idle_is_invited_after_the_first_batch(pair) -> None:
    found: list[int] = []
    pair.run(1, lambda: found.append(pair.invitations()))
    assert found == [1]
    assert pair.workers()[1] == LEADER


def uninvited(pair: Pair) -> bool:
    done = pair.run(99, lambda: None)
    assert done.state is JobState.SUCCEEDED
    return pair.invitations() == 0 and pair.workers() == {}


def test_who_has_a_job_is_not(pair) -> None:
    lifecycle.claim(pair.services, add_job(pair.services).id, HELPER)
    assert uninvited(pair)


def test_who_helps_already_is_not(pair) -> None:
    other = lifecycle.claim(pair.services, add_job(pair.services).id, "wkr_3")
    until = now() + timedelta(seconds=60)
    with pair.services.database.writing() as connection:
        shares.take(connection, other, 0, worker=HELPER, lease_until=until)
    pair.run(99, lambda: None)
    assert pair.invitations() == 0


def test_who_has_another_model_is_not(pair) -> None:
    (model,) = pair.helper.worker.models
    changed = replace(pair.helper.worker, models=(replace(model, revision="2"),))
    with pair.services.database.writing() as connection:
        queries.put_worker(connection, changed)
    assert uninvited(pair)


def test_nobody_is_for_the_little_that_is_left(services, make_runner, add_recording, pair) -> None:
    pair.job = add_recording(services, 50.0)
    assert uninvited(pair)


def test_nobody_is_while_a_caller_follows_the_text(services, add_recording, pair) -> None:
    pair.leads.info = replace(pair.leads.info, streams=True)
    pair.job = add_recording(services, SECONDS, sync=True, options={"stream": True})
    assert uninvited(pair)


def test_a_broker_that_is_away_costs_only_the_help(pair, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise broker.BrokerDown("gone")

    monkeypatch.setattr(broker, "invite", fail)
    assert pair.run(99, lambda: None).state is JobState.SUCCEEDED


def test_the_helper_hears_in_the_language_of_the_first_window(pair) -> None:
    asked: list[str | None] = []

    class Welsh(type(pair.leads)):
        def _hear(self, window: Samples, options: TranscribeOptions) -> Any:
            asked.append(options.language)
            return replace(type(pair.leads)._hear(self, window, options), language="cy")

    pair.helper.providers = {Kind.TRANSCRIPTION: Welsh()}
    assert pair.run(1, pair.help).state is JobState.SUCCEEDED
    assert asked == ["en"] * 4


def test_with_the_language_given_help_comes_from_the_start(pair, add_recording) -> None:
    lifecycle.cancel(pair.services, pair.job.id)  # or the helper would leave for it
    pair.job = add_recording(pair.services, SECONDS, options={"language": "fr"})
    assert pair.run(0, pair.help).state is JobState.SUCCEEDED
    assert pair.workers() == {0: LEADER} | dict.fromkeys(range(1, 6), HELPER)


def test_a_later_attempt_invites_only_once_it_has_got_on(pair, add_recording) -> None:
    pair.job = add_recording(pair.services, SECONDS, options={"language": "fr"})
    with pair.services.database.writing() as connection:
        connection.execute(tables.jobs.update().values(attempt=1))
    found: list[int] = []
    pair.leads.before = lambda: found.append(pair.invitations())
    pair.leader.run(pair.job.id)
    assert found[:2] == [0, 1]


@pytest.mark.parametrize("number", [0, 2])
def test_an_invitation_of_another_attempt_is_ignored(pair, number: int) -> None:
    pair.run(2, lambda: pair.helper.help(pair.job.id, number))
    assert pair.helps.heard == []


def test_an_invitation_to_what_is_over_is_ignored(pair) -> None:
    pair.run(99, lambda: None)
    pair.help()
    pair.helper.help("job_unknown", 1)
    assert pair.helps.heard == []


def test_a_helper_with_another_model_does_nothing(pair) -> None:
    pair.helps.info = replace(pair.helps.info, revision="2")
    pair.run(2, pair.help)
    assert pair.helps.heard == []


def test_what_a_helper_failed_at_is_the_leader_s(pair) -> None:
    def fail_once() -> None:
        if len(pair.helps.heard) == 1:
            raise RuntimeError("this worker's own fault")

    pair.helps.before = fail_once
    done = pair.run(2, pair.help)
    assert done.state is JobState.SUCCEEDED
    assert (len(pair.leads.heard), len(pair.helps.heard)) == (5, 1)
    assert (pair.workers()[3], pair.workers()[4]) == (HELPER, LEADER)
    assert pair.helper.current is None


def test_a_window_that_fails_everywhere_fails_the_job(pair) -> None:
    def fail() -> None:
        raise RuntimeError("asked to fail")

    pair.helps.before = fail
    failed = pair.run(3, lambda: (pair.help(), fail()))
    assert failed.state is JobState.FAILED
    assert failed.error["code"] == "model_failed"


def dies_at(pair: Pair, number: int) -> None:
    """A helper took it and was not heard of again."""
    job = get_job(pair.services, pair.job.id)
    until = now() + timedelta(seconds=60)
    with pair.services.database.writing() as connection:
        assert shares.take(connection, job, number, worker=HELPER, lease_until=until)


def test_what_a_dead_helper_had_in_hand_is_heard_once_its_lease_has_run_out(pair) -> None:
    looks: list[int] = []

    def run_out() -> None:
        looks.append(len(pair.leads.heard))
        if len(looks) == 3:
            with pair.services.database.writing() as connection:
                connection.execute(tables.shares.update().values(lease_expires_at=now()))

    pair.while_waiting = run_out
    done = pair.run(2, lambda: dies_at(pair, 4))
    assert done.state is JobState.SUCCEEDED
    assert looks == [5, 5, 5]
    assert len(pair.leads.heard) == 6
    assert pair.workers()[4] == LEADER


def test_what_a_worker_known_to_be_dead_had_is_free_at_once(pair) -> None:
    def die() -> None:
        dies_at(pair, 4)
        with pair.services.database.writing() as connection:
            worker = pair.helper.worker
            changed = replace(worker, pid=2)
            queries.put_worker(connection, changed)
            queries.bury_worker(connection, host=worker.host, pid=2, now=now())

    assert pair.run(2, die).state is JobState.SUCCEEDED
    assert len(pair.leads.heard) == 6


def test_a_second_helper_leaves_what_killed_the_first(pair, make_runner) -> None:
    def die_and_help() -> None:
        dies_at(pair, 3)
        with pair.services.database.writing() as connection:
            connection.execute(
                tables.shares.update()
                .where(tables.shares.c.number == 3)
                .values(lease_expires_at=now())
            )
        pair.help()

    assert pair.run(2, die_and_help).state is JobState.SUCCEEDED
    assert pair.workers()[3] == LEADER
    assert pair.workers()[4] == HELPER


def test_a_leader_who_waits_takes_what_comes(pair) -> None:
    def finish() -> None:
        """What was in hand all the while is heard now."""
        pair.while_waiting = lambda: None
        with pair.services.database.writing() as connection:
            connection.execute(tables.shares.delete().where(tables.shares.c.worker == HELPER))
        pair.help()

    pair.while_waiting = finish
    done = pair.run(2, lambda: dies_at(pair, 4))
    assert done.state is JobState.SUCCEEDED
    assert (len(pair.leads.heard), len(pair.helps.heard)) == (5, 1)


def test_a_leader_who_waits_can_be_cancelled(pair) -> None:
    pair.while_waiting = lambda: lifecycle.cancel(pair.services, pair.job.id)
    assert pair.run(2, lambda: dies_at(pair, 4)).state is JobState.CANCELLED


def test_a_leader_who_waits_drains_and_the_next_attempt_does_the_rest(pair, make_runner) -> None:
    pair.while_waiting = pair.leader.draining.set
    assert pair.run(2, lambda: dies_at(pair, 4)).state is JobState.QUEUED
    pair.helper.run(pair.job.id)
    done = get_job(pair.services, pair.job.id)
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)
    assert len(pair.helps.heard) == 1


def test_a_helper_leaves_for_any_job_that_waits(pair) -> None:
    pair.helps.before = lambda: add_job(pair.services, kind=Kind.TRANSCRIPTION, lane=Lane.BULK)
    pair.run(2, pair.help)
    assert len(pair.helps.heard) == 1
    assert pair.workers()[3] == HELPER  # and is kept
    assert len(pair.leads.heard) == 5


def test_a_helper_does_not_even_begin_when_a_job_waits(pair) -> None:
    add_job(pair.services, kind=Kind.TRANSCRIPTION, lane=Lane.BULK)
    pair.run(2, pair.help)
    assert pair.helps.heard == []


def test_a_helper_stays_when_another_worker_can_do_it(pair, make_runner) -> None:
    make_runner(pair.services, "wkr_idle")
    pair.helps.before = lambda: (
        pair.helps.heard or add_job(pair.services, kind=Kind.TRANSCRIPTION, lane=Lane.BULK)
    )
    pair.run(2, pair.help)
    assert len(pair.helps.heard) == 3


def test_a_leader_leaves_the_waiting_caller_to_the_helper(pair) -> None:
    def caller_comes() -> None:
        pair.help()
        add_job(pair.services, kind=Kind.TRANSCRIPTION, sync=True)

    pair.helps.before = pair.helper.draining.set
    done = pair.run(2, caller_comes)
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 1)


@pytest.mark.parametrize(("error", "heard"), [(None, 2), (Interrupted(), 1)])
def test_a_helper_that_is_stopped_keeps_what_it_has_finished(pair, error, heard: int) -> None:
    def stop() -> None:
        if len(pair.helps.heard) == 1:
            pair.helper.draining.set()
            if error:
                raise error

    pair.helps.before = stop
    done = pair.run(2, pair.help)
    assert done.state is JobState.SUCCEEDED
    assert len(pair.helps.heard) == heard
    assert len(pair.leads.heard) + len(pair.helps.heard) == 6


def test_a_cancelled_job_stops_leader_and_helper(pair) -> None:
    pair.helps.before = lambda: lifecycle.cancel(pair.services, pair.job.id)
    assert pair.run(2, pair.help).state is JobState.CANCELLED
    assert (len(pair.leads.heard), len(pair.helps.heard)) == (3, 1)


def test_a_helper_of_an_attempt_that_was_lost_keeps_nothing(pair) -> None:
    def lose() -> None:
        lifecycle.lose(pair.services, get_job(pair.services, pair.job.id), WORKER_LOST)

    pair.helps.before = lose
    assert pair.run(2, pair.help).state is JobState.QUEUED
    assert pair.windows() == [0, 1]
    assert len(pair.helps.heard) == 1


def test_a_helper_whose_share_was_taken_over_keeps_nothing(pair) -> None:
    def overtake() -> None:
        job, moment = get_job(pair.services, pair.job.id), now() + timedelta(hours=1)
        with pair.services.database.writing() as connection:
            assert shares.take_over(connection, job, 3, worker=LEADER, now=moment)
            connection.execute(tables.shares.update().values(lease_expires_at=now()))

    pair.helps.before = overtake
    found: list[list[int]] = []
    done = pair.run(2, lambda: (pair.help(), found.append(pair.windows())))
    assert found == [[0, 1]]
    assert (done.state, len(pair.leads.heard), len(pair.helps.heard)) == (
        JobState.SUCCEEDED,
        6,
        1,
    )


def test_a_killed_leader_leaves_what_both_have_finished(pair, make_runner) -> None:
    def die() -> None:
        pair.help()
        raise Interrupted

    pair.helps.before = lambda: pair.helper.draining.set() if len(pair.helps.heard) == 1 else None
    assert pair.run(2, die).state is JobState.QUEUED
    assert pair.windows() == [0, 1, 3, 4]
    third = type(pair.leads)()
    make_runner(pair.services, "wkr_3", transcription=third).run(pair.job.id)
    done = get_job(pair.services, pair.job.id)
    assert (done.state, len(third.heard)) == (JobState.SUCCEEDED, 2)


def test_progress_only_grows_and_counts_all_windows(pair) -> None:
    told: list[float] = []

    def look() -> None:
        told.append(get_job(pair.services, pair.job.id).progress)

    pair.helps.before = lambda: pair.helper.draining.set() if len(pair.helps.heard) == 1 else None

    def before() -> None:
        look()
        if len(pair.leads.heard) == 2:
            pair.help()

    pair.leads.before = before
    pair.leader.run(pair.job.id)
    assert told == sorted(told)
    # Windows 0 to 4 are heard before the last: three by the leader, two by the helper.
    assert told[-1] == pytest.approx(150 / SECONDS, abs=0.01)


def test_progress_does_not_fall_when_another_model_begins_anew(pair) -> None:
    reached = pair.run(3, pair.leader.draining.set).progress
    pair.helps.info = replace(pair.helps.info, revision="2")
    told: list[float] = []
    pair.helps.before = lambda: told.append(get_job(pair.services, pair.job.id).progress)
    pair.helper.run(pair.job.id)
    assert len(told) == 6
    assert told == sorted(told)
    assert told[0] == reached > told[-1] / 2


def test_the_heartbeat_holds_a_helper_s_share(pair) -> None:
    ends: list[Any] = []

    def look() -> None:
        with pair.services.database.reading() as connection:
            query = select(tables.shares.c.lease_expires_at).where(tables.shares.c.worker == HELPER)
            ends.append(connection.execute(query.order_by(tables.shares.c.number.desc())).scalar())

    def beat() -> None:
        look()
        Heartbeat(pair.helper).beat()
        look()
        pair.helper.draining.set()

    pair.helps.before = beat
    lease = get_job(pair.services, pair.job.id).lease_expires_at
    pair.run(2, pair.help)
    assert ends[0] < ends[1]
    assert lease is None  # the job's own is the leader's


def test_a_helper_that_hangs_gives_its_share_to_the_leader(pair) -> None:
    def hang() -> None:
        helping = pair.helper.current
        helping.give_away(STUCK)
        raise Interrupted  # as the process ends

    pair.helps.before = hang
    done = pair.run(2, pair.help)
    assert (done.state, done.attempt, done.losses) == (JobState.SUCCEEDED, 1, 0)
    assert len(pair.leads.heard) == 6
