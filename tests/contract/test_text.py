"""A job's text on its way from worker to front door, on a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis, RedisError

from app.broker import Announcer, Piece, redis_url, text_key
from app.clock import new_id
from app.jobs import lifecycle
from app.jobs.follow import Following, TextLost
from app.jobs.services import Services
from app.jobs.wait import Doorbell
from app.states import JobState, Kind
from tests import places
from tests.harness import Service
from tests.inprocess import add_job, close, make_services


@pytest.fixture
def broker_url(service: Service) -> str:
    return places.broker_url(service.data)


@pytest.fixture
def services(tmp_path: Path, broker_url: str) -> Iterator[Services]:
    base = make_services(tmp_path, broker_url=broker_url, broker_prefix=f"{new_id('t')}:")
    announcer = Announcer(broker_url, base.settings.broker_prefix)
    yield replace(base, announcer=announcer)
    announcer.close()
    close(base)


def following(services: Services, job_id: str, seconds: float = 30) -> Following:
    return Following(services, Doorbell("redis://nowhere", ""), job_id, seconds=seconds)


def queued(services: Services) -> str:
    return add_job(services, kind=Kind.TRANSCRIPTION).id


def tell(services: Services, job_id: str, *words: str, attempt: int = 1, start: int = 0) -> None:
    for number, word in enumerate(words, start):
        services.announcer.tell(job_id, Piece(attempt=attempt, number=number, text=word))


def all_of(found: Following) -> list[str]:
    async def collect() -> list[str]:
        return [piece async for piece in found.pieces()]

    return asyncio.run(collect())


def test_what_was_told_before_anybody_listened_is_heard(services: Services) -> None:
    job_id = queued(services)
    tell(services, job_id, "", "a", "b", "ç")
    lifecycle.cancel(services, job_id)
    found = following(services, job_id)
    assert all_of(found) == ["a", "b", "ç"]
    assert found.job is not None
    assert found.job.state is JobState.CANCELLED
    assert found.told_by_model


def test_each_piece_is_heard_when_it_is_told(services: Services) -> None:
    job_id = queued(services)

    async def scene() -> list[str | None]:
        pieces = following(services, job_id).pieces()
        heard: list[str | None] = []
        for number, word in enumerate(["", "one", "two", "three"]):
            await asyncio.to_thread(tell, services, job_id, word, start=number)
            heard += [await anext(pieces, None)] if word else []
        await asyncio.to_thread(lifecycle.cancel, services, job_id)
        return [*heard, await anext(pieces, None)]

    assert asyncio.run(scene()) == ["one", "two", "three", None]


def test_a_model_that_tells_nothing(services: Services) -> None:
    job_id = queued(services)
    lifecycle.cancel(services, job_id)
    found = following(services, job_id)
    assert all_of(found) == []
    assert not found.told_by_model


def test_an_overtaken_attempt_falls_silent(services: Services) -> None:
    job_id = queued(services)
    tell(services, job_id, "", "a")
    tell(services, job_id, "", "a", "b", attempt=2)
    with pytest.raises(RedisError):
        tell(services, job_id, "x", start=2)
    lifecycle.cancel(services, job_id)
    assert all_of(following(services, job_id)) == ["a", "b"]


def test_who_is_too_far_behind_is_told(services: Services, broker_url: str) -> None:
    job_id = queued(services)
    tell(services, job_id, "", "a", "b", "c")
    with Redis.from_url(redis_url(broker_url)) as client:
        client.xtrim(text_key(services.settings.broker_prefix, job_id), maxlen=2, approximate=False)
    with pytest.raises(TextLost):
        all_of(following(services, job_id))


def test_the_pieces_do_not_stay_for_ever(services: Services, broker_url: str) -> None:
    job_id = queued(services)
    tell(services, job_id, "", "a")
    with Redis.from_url(redis_url(broker_url)) as client:
        assert client.ttl(text_key(services.settings.broker_prefix, job_id)) > 0


def test_the_time_is_up(services: Services) -> None:
    job_id = queued(services)
    tell(services, job_id, "", "a")
    found = following(services, job_id, seconds=3)
    assert all_of(found) == ["a"]
    assert found.job is not None
    assert not found.job.state.final


def test_without_a_broker_the_row_is_waited_for(services: Services, tmp_path: Path) -> None:
    job_id = queued(services)
    lifecycle.cancel(services, job_id)
    nowhere = services.settings.with_changes(broker_url=f"redis+socket://{tmp_path / 'none.sock'}")
    found = following(replace(services, settings=nowhere), job_id)
    assert all_of(found) == []
    assert found.job is not None
    assert found.job.state is JobState.CANCELLED
