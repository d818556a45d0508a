"""Where a checkpoint in few bits goes, and that it is there whole or not at all."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from models import quantise as module
from models.base import CheckpointError
from models.quantise import quantise


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A models directory with a checkpoint called parrot."""
    root = tmp_path / "models"
    (root / "parrot").mkdir(parents=True)
    (root / "parrot" / "config.json").write_text(json.dumps({"model_type": "whisper"}))
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(root))
    return root


@pytest.fixture
def writer(monkeypatch):
    """Takes the place of the family's: writes its arguments, then does as it is told."""

    def install(then=lambda: None):
        def write(source, target, *, bits):
            (target / "told").write_text(f"{source.name} {bits}")
            then()

        monkeypatch.setitem(sys.modules, "some_writer", SimpleNamespace(write=write))
        monkeypatch.setattr(module, "WRITERS", {"whisper": "some_writer"})

    return install


def fail():
    raise RuntimeError("[save] no room")


def test_it_lies_beside_the_pulled_ones_under_a_name_with_its_bits(root, writer):
    writer()
    assert quantise("parrot", bits=4) == root / "parrot-4bit"
    assert (root / "parrot-4bit" / "told").read_text() == "parrot 4"


def test_a_checkpoint_elsewhere_is_written_there_too(root, writer, tmp_path):
    writer()
    (root / "parrot").rename(tmp_path / "starling")
    assert quantise(tmp_path / "starling", bits=8) == root / "starling-8bit"


def test_nothing_is_left_of_a_failure(root, writer):
    writer(fail)
    with pytest.raises(CheckpointError, match=r"parrot-8bit was not written: .*no room"):
        quantise("parrot", bits=8)
    assert [path.name for path in root.iterdir()] == ["parrot"]


def test_what_is_there_is_not_written_over(writer):
    writer()
    quantise("parrot", bits=8)
    with pytest.raises(CheckpointError, match="is there already"):
        quantise("parrot", bits=8)


def test_a_family_that_nothing_quantises_is_named(root):
    (root / "parrot" / "config.json").write_text(json.dumps({"istftnet": {}}))
    with pytest.raises(CheckpointError, match="parrot is a kokoro model"):
        quantise("parrot", bits=8)
