from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from app import doctor
from app.db.engine import Database
from app.db.migration import migrate
from app.doctor import Finding, examine
from app.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, stt_model="", tts_model="", port=0)


@pytest.fixture(autouse=True)
def _fast_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = (
        '{"device": "cpu", "blas": "MKL", "onednn_path": "/lib/libdnnl.so", "threads": 2, '
        '"gflops": 120.0}\n'
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=answer))


def found(settings: Settings) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(settings)}


def test_a_machine_in_order(settings: Settings) -> None:
    database = Database(settings.resolved_database_url)
    migrate(database)
    database.close()
    findings = found(settings)
    assert all(finding.fine for finding in findings.values()), findings
    assert findings["backend"].text == "cpu, 120 GFLOP/s with MKL and oneDNN on 2 threads"


def test_a_missing_schema_is_told_with_the_command(settings: Settings) -> None:
    finding = found(settings)["database"]
    assert not finding.fine
    assert "run `voxqueue migrate`" in finding.text


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        (
            {"database_url": "postgresql+psycopg://u:s3cret@127.0.0.1:1/x"},
            "database",
            "VOXQUEUE_DATABASE_URL",
        ),
        ({"broker_url": "redis://:s3cret@127.0.0.1:1/0"}, "broker", "VOXQUEUE_BROKER_URL"),
        ({"storage_url": "ftp://u:s3cret@h"}, "storage", "use file:///directory or s3://"),
        ({"stt_model": "no-such-model"}, "weights", "no-such-model"),
    ],
)
def test_what_is_wrong_is_told_without_secrets(
    settings: Settings, changes: dict[str, str], name: str, text: str
) -> None:
    finding = found(settings.with_changes(**changes))[name]
    assert not finding.fine
    assert text in finding.text
    assert "s3cret" not in finding.text


def test_a_directory_that_cannot_be(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    findings = found(settings.with_changes(data_dir=tmp_path / "file" / "data"))
    assert not any(findings[name].fine for name in ("database", "storage", "disk")), findings


def test_a_slow_backend(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = (
        '{"device": "cpu", "blas": "reference", "onednn_path": "", "threads": 2, "gflops": 4.0}'
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=answer))
    finding = found(settings)["backend"]
    assert (finding.fine, "install the package 'mkl'" in finding.text) == (False, True)


def test_a_full_disk(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    finding = found(settings)["disk"]
    assert (finding.fine, "make room" in finding.text) == (False, True)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use(settings: Settings, taken: int) -> None:
    finding = found(settings.with_changes(port=taken))["port"]
    assert (finding.fine, "set VOXQUEUE_PORT" in finding.text) == (False, True)
