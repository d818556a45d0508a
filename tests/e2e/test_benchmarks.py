"""The documented benchmark commands run, on real weights, with as little to do as they allow."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from benchmarks import cases, run, startup
from tests.harness import ROOT

pytestmark = pytest.mark.weights
PAGES = ("benchmarks/README.md", "docs/speed.md", "docs/operating.md")


@pytest.fixture
def command(monkeypatch, real_models):
    """Runs a module's main with the given arguments."""

    def call(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
        module.main()

    return call


@pytest.mark.parametrize("page", PAGES)
def test_every_benchmark_that_is_shown_exists(page):
    shown = set(re.findall(r"-m (benchmarks\.\w+)", (ROOT / page).read_text(encoding="utf-8")))
    assert shown
    assert [name for name in shown if importlib.util.find_spec(name) is None] == []


def test_transcription_alone_and_over_http(command, speech_dir, capsys):
    command(run, "stt", speech_dir / "jfk.wav", "--rounds", 1, "--no-peers", "--http", "--texts")
    out = capsys.readouterr().out
    assert out.count("what your country can do for you") == 3  # whole, in 8 bits, over HTTP
    assert re.search(r"^voxqueue +\d+\.\d\d", out, flags=re.MULTILINE)
    assert re.search(r"HTTP: [\d.]+ ms beyond the worker's time, [\d.]+ ms beyond the model's", out)


def test_speech_alone_and_over_http(command, monkeypatch, capsys):
    monkeypatch.setattr(cases, "SENTENCES", ("Good morning.",))
    command(run, "tts", "--rounds", 1, "--no-peers", "--http")
    assert re.search(r"^voxqueue over HTTP +\d+\.\d\d", capsys.readouterr().out, flags=re.MULTILINE)


def test_start_up(command, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")  # both are put back afterwards
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command(startup, "--rounds", 1)
    seconds = re.findall(r"(\d+\.\d\d) s$", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(seconds) == 3
    imported, worker, service = map(float, seconds)
    assert imported > 0
    assert service > worker > 0
