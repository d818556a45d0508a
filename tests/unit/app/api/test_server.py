from __future__ import annotations

import subprocess
import sys

from tests.harness import ROOT

HEAVY = ("mlx", "numpy", "soundfile", "opentelemetry.sdk.trace", "opentelemetry.exporter")


def test_a_front_door_starts_without_what_only_workers_or_traces_need() -> None:
    asked = "import sys, app.api.server; print(*sys.modules)"
    command = [sys.executable, "-c", asked]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(HEAVY).isdisjoint(loaded.split())
