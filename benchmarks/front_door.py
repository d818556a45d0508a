"""What the service adds to the model: wall time of a warm call minus the time its job ran.

``python -m benchmarks.front_door``, with a model that computes nothing: upload, parsing, bounds,
storing, queue, wake-up, rendering and the client itself. ``benchmarks.run --http`` has real models.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

from tests.harness import Service, fake_model

CALLS = 50
WARM_UP = 5
CLIP_SECONDS = 3.0
RATE = 16_000


def clip(number: int) -> bytes:
    """Another sound each time, so that nothing can be answered from a result that is there."""
    noise = np.random.default_rng(number).normal(0, 0.05, int(CLIP_SECONDS * RATE))
    file = io.BytesIO()
    soundfile.write(file, noise, RATE, format="WAV")
    return file.getvalue()


def overhead(service: Service, number: int) -> tuple[float, float]:
    """Seconds of one call, and those that its job ran."""
    audio = clip(number)
    started = time.perf_counter()
    answer = service.client.post("/v1/audio/transcriptions", files={"file": ("clip.wav", audio)})
    wall = time.perf_counter() - started
    answer.raise_for_status()
    (job,) = service.client.get("/v1/jobs?limit=1").json()["data"]
    return wall, job["metrics"]["run_seconds"]


def main() -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.front_door").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str(fake_model(Path(folder) / "fake"))
        service = Service(Path(folder) / "data", "--stt-model", model, "--tts-model", "")
        try:
            timed = [overhead(service, number) for number in range(WARM_UP + CALLS)][WARM_UP:]
        finally:
            service.stop()
    added = sorted(1000 * (wall - run) for wall, run in timed)
    print(f"call   median {1000 * statistics.median(wall for wall, _ in timed):7.1f} ms")
    print(f"model  median {1000 * statistics.median(run for _, run in timed):7.1f} ms")
    print(f"added  median {statistics.median(added):7.1f} ms, p90 {added[int(0.9 * CALLS)]:.1f} ms")


if __name__ == "__main__":
    main()
