from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import app.cli_models
import models.catalog
from app.cli_models import models_app
from models.base import Capability
from models.catalog import CatalogEntry, HubRepository


@pytest.fixture
def run():
    def invoke(*arguments):
        return CliRunner().invoke(models_app, arguments)

    return invoke


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """An empty models directory and a catalogue of models that only a directory can give."""
    known = {
        name: CatalogEntry(
            name=name,
            kind=Capability.STT,
            family="whisper",
            summary="A bird that repeats.",
            licence="MIT",
            hub=HubRepository(repo="some/bird", revision="main", files=()),
            files={},
            bytes=5_000_000,
        )
        for name in ("parrot", "starling")
    }
    monkeypatch.setattr(models.catalog, "catalogue", lambda: known)
    monkeypatch.setattr(app.cli_models, "catalogue", lambda: known)
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "models"


@pytest.fixture
def given(tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper"}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_list_shows_what_is_here_and_what_is_not(run, root, given):
    run("pull", "parrot", "--from", str(given))
    result = run("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["parrot", "stt", "5", "MB", "MIT", str(root / "parrot")]
    assert lines[1].strip() == "A bird that repeats."
    assert lines[2].endswith("not pulled")


def test_pull_reports_on_stderr_only(run, root, given):
    result = run("pull", "parrot", "starling", "--from", str(given))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "model.safetensors (0 MB)" in result.stderr
    assert f"parrot is at {root / 'parrot'}" in result.stderr
    assert (root / "starling" / "model.safetensors").read_bytes() == b"weights"


def test_pull_takes_the_directory_from_the_environment(run, root, given, monkeypatch):
    monkeypatch.setenv("VOXQUEUE_MODELS_FROM", str(given))
    assert run("pull", "parrot").exit_code == 0


def test_pull_of_a_misspelt_name_fetches_nothing(run, root, given):
    result = run("pull", "parrot", "parot", "--from", str(given))
    assert result.exit_code == 1
    assert "voxqueue: no model 'parot' in the catalogue" in result.stderr
    assert not root.exists()


def test_pull_from_no_source_is_one_line(run, given):
    (given / "config.json").write_text(json.dumps({"istftnet": {}}))
    result = run("pull", "parrot", "--from", str(given))
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("voxqueue:")]
    assert "holds a kokoro model" in line


def test_an_interrupt_says_what_is_kept(run, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("models.pull.pull", interrupted)
    result = run("pull", "parrot")
    assert result.exit_code == 130
    assert "finished downloads are kept" in result.stderr


def test_verify_of_what_was_pulled(run, given):
    run("pull", "parrot", "--from", str(given))
    result = run("verify")
    assert result.exit_code == 0
    assert result.stdout == "parrot: ok\n"


def test_verify_names_what_differs(run, root, given):
    run("pull", "parrot", "starling", "--from", str(given))
    (root / "parrot" / "model.safetensors").write_bytes(b"spoiled")
    result = run("verify")
    assert result.exit_code == 1
    assert result.stdout == "parrot: differs\nstarling: ok\n"
    assert f"{root / 'parrot' / 'model.safetensors'} is not the expected file" in result.stderr


def test_verify_of_a_model_that_is_not_here(run):
    result = run("verify", "parrot")
    assert result.exit_code == 1
    assert "run `voxqueue models pull parrot`" in result.stderr


@pytest.mark.parametrize(("options", "bits"), [((), 8), (("--bits", "4"), 4)])
def test_quantize_prints_where_it_lies(run, root, monkeypatch, options, bits):
    monkeypatch.setattr(
        "models.quantise.quantise", lambda name, *, bits: root / f"{name}-{bits}bit"
    )
    assert run("quantize", "parrot", *options).stdout == f"{root / f'parrot-{bits}bit'}\n"


def test_quantize_of_a_model_that_is_not_here(run):
    result = run("quantize", "parrot")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "run `voxqueue models pull parrot`" in result.stderr


def test_list_shows_what_was_made_here(run, root):
    (root / "parrot-8bit").mkdir(parents=True)
    (root / ".parrot.lock").touch()
    assert (
        run("list").stdout.splitlines()[-1] == f"parrot-8bit      made here: {root / 'parrot-8bit'}"
    )


def test_path_prints_the_directory(run, root, given):
    run("pull", "parrot", "--from", str(given))
    assert run("path", "parrot").stdout == f"{root / 'parrot'}\n"


def test_path_of_a_model_that_is_not_here(run):
    result = run("path", "parrot")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "run `voxqueue models pull parrot`" in result.stderr
