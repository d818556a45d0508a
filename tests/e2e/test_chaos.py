"""A short run of chaos.py; the long one is run by hand."""

from __future__ import annotations

from pathlib import Path

from tests.e2e import chaos


def test_every_job_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    figures = chaos.run(tmp_path, seed=20261129, jobs=40, workers=2, seconds=15)
    assert figures["ended"]["succeeded"] > 0
    assert sum(figures["ended"].values()) == 40
