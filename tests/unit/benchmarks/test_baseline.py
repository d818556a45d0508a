"""What counts as worse, and what a saved run leaves in the file."""

from __future__ import annotations

import json

import pytest

from benchmarks import baseline
from benchmarks.baseline import Accepted
from benchmarks.cases import CASES


def accepted(date="2026-01-02", **ratios):
    return Accepted(date=date, machine={"processor": "some"}, versions={"peer": "1"}, ratios=ratios)


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.6])
def test_a_ratio_within_the_tolerance_is_not_worse(ratio):
    assert list(baseline.worse({"peer": ratio}, {"peer": 0.5}, tolerance=0.2)) == []


def test_a_ratio_beyond_the_tolerance_is_worse_and_named():
    now, before = {"slow": 0.61, "fast": 0.9}, {"slow": 0.5, "fast": 0.9}
    (words,) = baseline.worse(now, before, tolerance=0.2)
    assert words == "0.61 of the time of slow, which was 0.50"


def test_a_peer_that_only_one_of_the_runs_had_is_not_judged():
    assert list(baseline.worse({"new": 9.0}, {"gone": 0.1}, tolerance=0.2)) == []


def test_nothing_saved_is_an_empty_baseline(tmp_path):
    assert baseline.read(tmp_path / "none.json") == {}


def test_a_saved_case_replaces_itself_alone(tmp_path):
    file = tmp_path / "baseline.json"
    baseline.save({"clip": accepted(peer=0.5), "speech": accepted(peer=0.7)}, file)
    baseline.save({"clip": accepted("2026-02-03", peer=0.4)}, file)
    assert baseline.read(file) == {
        "clip": accepted("2026-02-03", peer=0.4),
        "speech": accepted(peer=0.7),
    }


def test_no_time_is_kept(tmp_path):
    file = tmp_path / "baseline.json"
    baseline.save({"clip": accepted(peer=0.5)}, file)
    assert json.loads(file.read_text())["clip"].keys() == {"date", "machine", "versions", "ratios"}


def test_the_baseline_of_the_repository_can_be_read():
    saved = baseline.read(baseline.FILE)
    assert "clip" in saved
    assert saved.keys() <= CASES.keys()
