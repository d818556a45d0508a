from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from app.serve import bury
from app.settings import Settings


def test_a_worker_that_dies_while_the_database_is_away_ends_nothing_else(tmp_path: Path) -> None:
    with capture_logs() as logs:
        bury(Settings(database_url=f"sqlite:///{tmp_path}"), 17)  # a directory is no database
    assert [(log["event"], log["pid"]) for log in logs] == [("worker_not_buried", 17)]
