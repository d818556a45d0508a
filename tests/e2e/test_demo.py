from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.harness import ROOT

pytestmark = pytest.mark.weights


def test_make_demo_speaks_and_transcribes(
    tmp_path: Path, real_models: None, speech_dir: Path
) -> None:
    run = subprocess.run(
        ["make", "demo", f"DATA={tmp_path}", f"AUDIO={speech_dir / 'jfk.wav'}"],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "every request becomes a job in a database" in run.stdout.lower()
    assert "ask not what your country can do for you" in run.stdout
    for name in re.findall(r"(?:WAV|Transcript|Job rows) +(\S+)", run.stdout):
        assert Path(name).is_file()
    assert (tmp_path / "demo.wav").stat().st_size > 44
