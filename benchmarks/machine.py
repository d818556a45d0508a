"""What a figure was measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from app.doctor import MEASURE


def describe() -> dict[str, str]:
    command = [sys.executable, "-c", MEASURE]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "device": found["device"] + (f" with {found['blas']}" if found["blas"] else ""),
    }


def _processor() -> str:
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
