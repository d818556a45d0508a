"""The command that judges a new run against the saved one, on systems that compute nothing."""

from __future__ import annotations

import sys

import pytest

from benchmarks import baseline, machine, run
from benchmarks.alternate import OWN, Result
from benchmarks.cases import Case

HERE = {"processor": "some"}


def result(seconds):
    return Result(seconds=(seconds,), rounds=1, audio_seconds=1.0, versions={"some": "1"})


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Runs ``compare``; this project takes the given seconds, its peer one."""
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    monkeypatch.setattr(machine, "describe", lambda: HERE)
    monkeypatch.setattr(run, "CASES", {"clip": lambda _: Case(title="t", systems=(), requests=())})

    def call(seconds, *options, peers=("peer",)):
        results = {OWN: result(seconds)} | {name: result(1.0) for name in peers}
        monkeypatch.setattr(run, "alternate", lambda *_, **__: results)
        monkeypatch.setattr(sys, "argv", ["run", "compare", *options])
        run.main()

    return call


def test_as_fast_as_the_baseline_is_fine(compare):
    compare(0.5, "--save")
    compare(0.55)


def test_slower_than_the_baseline_is_a_failure_that_says_what(compare):
    compare(0.5, "--save")
    with pytest.raises(SystemExit, match=r"clip: 0\.70 of the time of peer, which was 0\.50"):
        compare(0.7)


def test_the_tolerance_can_be_chosen(compare):
    compare(0.5, "--save")
    compare(0.7, "--tolerance", "0.5")
    with pytest.raises(SystemExit, match="worse than the baseline"):
        compare(0.7, "--tolerance", "0.3")


def test_saving_accepts_what_is_worse(compare):
    compare(0.5, "--save")
    compare(0.9, "--save")
    assert baseline.read(baseline.FILE)["clip"].ratios == {"peer": 0.9}


def test_without_peers_nothing_is_saved_or_judged(compare, capsys):
    compare(0.5, "--save")
    compare(9.0, "--no-peers", "--save", peers=())
    assert baseline.read(baseline.FILE)["clip"].ratios == {"peer": 0.5}
    assert "not compared with peer" in capsys.readouterr().out


def test_a_missing_file_is_a_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run", "stt", "/nowhere.wav"])
    with pytest.raises(SystemExit, match=r"no such file: /nowhere\.wav"):
        run.main()
