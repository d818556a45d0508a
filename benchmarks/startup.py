"""``python -m benchmarks.startup``: how long the front door's import and a worker's start take.

The import is timed in a fresh process, with bytecode that lies there compiled. A worker counts from
its process's start to its first look at the queue, with weights that the system has in its cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.runner import ROOT, WORK
from tests.harness import Service


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(json.dumps(machine.describe()))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed lies there compiled
    os.environ["PYTHONPYCACHEPREFIX"] = str(WORK / "bytecode")
    front, workers, services = [], [], []
    for number in range(rounds + 1):
        door = importing("app.api.server")
        worker, service = starts()
        if number:  # the first one fills the caches
            front.append(door)
            workers.append(worker)
            services.append(service)
    print(f"front door imported      {statistics.median(front):.2f} s")
    print(f"worker ready             {statistics.median(workers):.2f} s")
    print(f"voxqueue serve announced {statistics.median(services):.2f} s")


def importing(module: str) -> float:
    """Seconds that the module and all that it needs take to load."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, cwd=ROOT, capture_output=True).stdout)


def starts() -> tuple[float, float]:
    """Seconds of the worker alone, and until all of the service says that it is ready."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        service = Service(Path(folder))
        announced = time.perf_counter() - started
        service.stop()
        return worker_seconds(service.log), announced


def worker_seconds(log: str) -> float:
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    started = next(e for e in events if e.get("child", "").startswith("worker"))
    ready = next(e for e in events if e["event"] == "worker_ready")
    times = [datetime.fromisoformat(event["timestamp"]) for event in (started, ready)]
    return (times[1] - times[0]).total_seconds()


if __name__ == "__main__":
    main()
