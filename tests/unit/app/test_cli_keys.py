from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli_keys import keys_app
from app.db.engine import Database
from app.db.migration import migrate
from app.settings import Settings


@pytest.fixture
def data(tmp_path: Path) -> Path:
    database = Database(Settings(data_dir=tmp_path).resolved_database_url)
    migrate(database)
    database.close()
    return tmp_path


def test_keys_lie_in_the_directory_that_is_named(data: Path) -> None:
    made = CliRunner().invoke(keys_app, ["create", "alice", "--data-dir", str(data)])
    assert made.exit_code == 0, made.output
    key = made.stderr.split()[0]
    listed = CliRunner().invoke(keys_app, ["list", "--data-dir", str(data)])
    assert listed.stdout.split() == [key, *listed.stdout.split()[1:-1], "alice"]
    revoked = CliRunner().invoke(keys_app, ["revoke", key, "--data-dir", str(data)])
    assert revoked.exit_code == 0


@pytest.mark.parametrize("command", [["create", "alice"], ["list"], ["revoke", "key_1"]])
def test_a_missing_schema_is_one_line(tmp_path: Path, command: list[str]) -> None:
    told = CliRunner().invoke(keys_app, [*command, "--data-dir", str(tmp_path)])
    assert told.exit_code == 1
    assert told.stderr.startswith("voxqueue: the database is at schema none")
    assert len(told.stderr.splitlines()) == 1


def test_a_database_that_is_away_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VOXQUEUE_DATABASE_URL", f"sqlite:///{tmp_path}")  # a directory
    told = CliRunner().invoke(keys_app, ["list"])
    assert told.exit_code == 1
    assert told.stderr.startswith("voxqueue: the database does not answer: ")
