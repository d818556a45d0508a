from __future__ import annotations

import re
from pathlib import Path

import pytest

from models import catalog
from models.base import CheckpointError

NAMES = ("whisper-base", "whisper-tiny.en", "kokoro-82m")


@pytest.fixture(autouse=True)
def models_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


def test_lists_the_known_models():
    assert tuple(catalog.catalogue()) == NAMES
    assert [entry.kind for entry in catalog.catalogue().values()] == ["stt", "stt", "tts"]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(CheckpointError, match=r"'nope'.*whisper-base, whisper-tiny\.en"):
        catalog.entry("nope")


@pytest.mark.parametrize("name", NAMES)
def test_every_source_is_pinned(name):
    entry = catalog.entry(name)
    assert re.fullmatch(r"[0-9a-f]{40}", entry.hub.revision)
    for package in entry.packages:
        assert re.fullmatch(r"\d+(\.\d+)+", package.version)
        assert package.version in package.file
        assert package.bytes > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_part_names_a_package_of_the_entry(name):
    entry = catalog.entry(name)
    packages = {package.name for package in entry.packages}
    parts = [part for file in entry.files.values() for part in file.parts]
    assert parts
    assert {part.partition(":")[0] for part in parts} <= packages
    assert entry.importer or all(file.parts for file in entry.files.values())


def test_kokoro_has_all_voices_and_the_lexicon():
    files = catalog.entry("kokoro-82m").files
    assert sum(name.startswith("voices/") for name in files) == 54
    assert files["lexicon/us_gold.json"].every_source
    assert files["lexicon/us_silver.json"].every_source


def test_a_name_resolves_to_the_models_directory(models_dir):
    (models_dir / "whisper-base").mkdir(parents=True)
    assert catalog.checkpoint_path("whisper-base") == models_dir / "whisper-base"


def test_a_directory_resolves_to_itself(tmp_path):
    assert catalog.checkpoint_path(tmp_path) == tmp_path
    assert catalog.checkpoint_path(str(tmp_path)) == tmp_path


def test_a_model_not_pulled_says_what_to_run():
    with pytest.raises(CheckpointError, match="run `voxqueue models pull whisper-base`"):
        catalog.checkpoint_path("whisper-base")


def test_neither_name_nor_directory_lists_the_names(tmp_path):
    with pytest.raises(CheckpointError, match=r"neither a directory nor a model.*whisper-base"):
        catalog.checkpoint_path(tmp_path / "absent")


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"VOXQUEUE_MODELS_DIR": "/m"}, "linux", "/m"),
        ({"XDG_CACHE_HOME": "/x"}, "linux", "/x/voxqueue/models"),
        ({}, "linux", "/home/u/.cache/voxqueue/models"),
        ({}, "darwin", "/home/u/Library/Caches/voxqueue/models"),
    ],
)
def test_where_models_lie(monkeypatch, environment, platform, expected):
    for name in ("VOXQUEUE_MODELS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setattr("sys.platform", platform)
    assert catalog.models_dir() == Path(expected)
