from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings


def test_defaults_need_no_server(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.resolved_database_url == f"sqlite:///{tmp_path / 'db.sqlite'}"
    assert settings.storage_dir == tmp_path / "blobs"
    assert settings.broker_url == ""


def test_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXQUEUE_AUDIO_QUEUE_DEPTH", "3")
    assert Settings().audio_queue_depth == 3


@pytest.mark.parametrize(
    ("name", "meant"), [("audio_queue_depth", 1), ("audio_request_timeout_seconds", 120.0)]
)
def test_zero_rules(name: str, meant: float) -> None:
    assert getattr(Settings(**{name: 0}), name) == meant


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("audio_queue_depth", -1),
        ("audio_request_timeout_seconds", -1),
        ("audio_request_timeout_seconds", "inf"),
        ("audio_request_timeout_seconds", "nan"),
        ("port", 70_000),
        ("max_attempts", 0),
        ("log_level", "loud"),
    ],
)
def test_odd_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: value})


def test_changes_are_validated_and_none_changes_nothing() -> None:
    settings = Settings(port=1234)
    assert settings.with_changes(port=None).port == 1234
    assert settings.with_changes(audio_queue_depth=0).audio_queue_depth == 1
    with pytest.raises(ValidationError, match="port"):
        settings.with_changes(port=-1)


def test_a_child_process_sees_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(port=1, stt_model="", window_batch=3, data_dir=Path("elsewhere"))
    for key, value in settings.to_env().items():
        monkeypatch.setenv(key, value)
    assert Settings() == settings


def test_a_directory_that_no_database_url_can_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"what\?/data: .*rename that directory"):
        Settings(data_dir=tmp_path / "what?" / "data")
