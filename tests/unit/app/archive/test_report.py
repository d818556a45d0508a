from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from app.archive.items import Status
from app.archive.report import Entry, InUse, Report


def entry(id_: str, status: Status = Status.DONE, **values: object) -> Entry:
    return Entry(id=id_, status=status, **values)


def test_the_last_word_holds_and_a_line_cut_short_is_none(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.jsonl"
    with Report(path) as report:
        report.write(entry("a", Status.SUBMITTED, job="job_1"))
        report.write(entry("a", words=3))
        report.write(entry("b", Status.FAILED, error="no"))
    with path.open("a") as file:
        file.write('{"id": "c", "sta')
    with Report(path) as report:
        assert report.entries == {
            "a": entry("a", words=3),
            "b": entry("b", Status.FAILED, error="no"),
        }
        report.rewrite()
    assert len(path.read_text().splitlines()) == 2
    assert list(path.parent.iterdir()) == [path]


def test_a_death_while_it_was_rewritten_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    (tmp_path / "report.jsonl.copy").write_text(entry("a").line() + entry("b").line())
    path.write_text(entry("a").line())
    with Report(path) as report:
        assert set(report.entries) == {"a", "b"}


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Report(tmp_path / "r.jsonl"), pytest.raises(InUse):
        Report(tmp_path / "r.jsonl")


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    path = tmp_path / "r.jsonl"
    with Report(path) as report:
        report.write(entry(name, outputs=["x", "y"]))
        report.write_csv(tmp_path / "r.csv")
    with Report(path) as report:
        assert list(report.entries) == [name]
    (row,) = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert (row["id"], row["status"], row["outputs"]) == ("caf\\udce9.wav", "done", "x y")
