"""Systems are asked in turn, the first round is thrown away, and ratios are of equal audio."""

from __future__ import annotations

import pytest

from benchmarks import alternate as alternate_module
from benchmarks.alternate import HTTP, OWN, alternate, ratios
from benchmarks.load import Others

FILE = {"file": "a.wav", "audio_seconds": 10.0}


class Fake:
    """Takes the given seconds for its requests, one after the other."""

    def __init__(self, name, asked, *, seconds, **answer):
        self.name, self.asked, self.answer = name, asked, answer
        self.versions = {"fake": "1"}
        self.seconds = iter(seconds)
        self.running = False

    def start(self):
        return self

    def ask(self, request):
        assert self.running
        self.asked.append(self.name)
        return {"seconds": next(self.seconds), **self.answer}

    def __enter__(self):
        self.running = True
        return self

    def __exit__(self, *_):
        self.running = False


@pytest.fixture
def asked():
    return []


@pytest.fixture(autouse=True)
def shares(monkeypatch):
    """Of the machine that others have, round by round; nothing at the end."""
    found = []
    monkeypatch.setattr(alternate_module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(Others, "share", lambda _: found.pop(0) if found else 0.0)
    return found


def test_systems_take_turns_and_end(asked):
    systems = [Fake(name, asked, seconds=[1.0] * 6) for name in (OWN, "peer")]
    alternate(systems, [FILE, FILE], rounds=2)
    assert asked == [OWN, OWN, "peer", "peer"] * 3
    assert not any(system.running for system in systems)


def test_the_first_round_does_not_count(asked):
    own = Fake(OWN, asked, seconds=[99.0, 3.0, 1.0, 2.0])
    result = alternate([own], [FILE], rounds=3)[OWN]
    assert result.seconds == (3.0, 1.0, 2.0)
    assert (result.median, result.cost) == (2.0, 0.2)


def test_a_disturbed_round_does_not_count(asked, shares):
    shares += [0.0, 0.9, 0.05]
    own = Fake(OWN, asked, seconds=[99.0, 3.0, 1.0])
    result = alternate([own], [FILE], rounds=2)[OWN]
    assert (result.seconds, result.rounds) == ((1.0,), 2)


def test_where_every_round_is_disturbed_all_count(asked, shares):
    shares += [0.9, 0.9, 0.5]
    own = Fake(OWN, asked, seconds=[99.0, 3.0, 1.0])
    assert alternate([own], [FILE], rounds=2)[OWN].seconds == (3.0, 1.0)


def test_ratios_are_by_second_of_speech(asked):
    own = Fake(OWN, asked, seconds=[9.0, 1.0], audio_seconds=2.0)
    peer = Fake("peer", asked, seconds=[9.0, 1.0], audio_seconds=1.0)
    assert ratios(alternate([own, peer], [{"text": "Hello."}], rounds=1)) == {"peer": 0.5}


def test_http_is_no_peer_and_shows_what_it_adds(asked):
    own = Fake(OWN, asked, seconds=[1.0, 1.0])
    http = Fake(HTTP, asked, seconds=[9.0, 1.5], beyond_job=0.25, beyond_model=0.5)
    results = alternate([own, http], [FILE], rounds=1)
    assert ratios(results) == {}
    assert (results[HTTP].beyond_job, results[HTTP].beyond_model) == ((0.25,), (0.5,))


def test_a_system_that_fails_takes_the_others_down_with_it(asked):
    own, peer = Fake(OWN, asked, seconds=[1.0]), Fake("peer", asked, seconds=[])
    with pytest.raises(StopIteration):
        alternate([own, peer], [FILE], rounds=1)
    assert not own.running
    assert not peer.running
