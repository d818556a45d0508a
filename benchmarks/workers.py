"""One worker against two at the same work, each pinned to a core of its own (Linux).

``python -m benchmarks.workers FILE…``: an archive (the recordings again and again) as bulk jobs,
then one long recording (all of them in one), whose windows the second worker helps with. Nothing is
answered from a result that is there; how many texts are the same is told.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle
from pathlib import Path

import numpy as np
import soundfile
import soxr

from app.settings import Settings
from app.states import JobState
from benchmarks.recordings import FOLDER
from tests.cluster import QUICK, Cluster, Front, cluster, job_id
from tests.harness import eventually

RATE = 16_000
CORES = (0, 1)
LIMIT_SECONDS = 1800.0
WARM_UP = 8  # recordings; more than one worker takes at a time
AS_SHIPPED = {name: Settings.model_fields[name].default for name in QUICK}

Timed = tuple[float, list[str]]  # seconds, and the texts


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started here runs on this core only, and takes it for the only one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def archive(files: Sequence[Path], minutes: float) -> list[bytes]:
    """The recordings in turn, until they last so long."""
    total, found = 0.0, []
    for path in cycle(files):
        if total >= 60 * minutes:
            return found
        found.append(path.read_bytes())
        total += soundfile.info(path).duration
    return found


def long_recording(files: Sequence[Path], minutes: float) -> bytes:
    once = np.concatenate(list(chain.from_iterable((_samples(path), _pause()) for path in files)))
    whole = np.tile(once, 1 + int(60 * minutes * RATE / len(once)))[: int(60 * minutes * RATE)]
    file = io.BytesIO()
    soundfile.write(file, whole, RATE, format="FLAC")
    return file.getvalue()


def _samples(path: Path) -> np.ndarray:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return soxr.resample(samples.mean(axis=1), rate, RATE)


def _pause() -> np.ndarray:
    return np.zeros(RATE // 2, np.float32)


def timed(house: Cluster, front: Front, recordings: Sequence[bytes], language: str) -> Timed:
    started = time.perf_counter()
    jobs = [submit(front, recording, language) for recording in recordings]
    eventually(
        lambda: all(house.job(job).state.final for job in reversed(jobs)), seconds=LIMIT_SECONDS
    )
    seconds = time.perf_counter() - started
    assert {house.job(job).state for job in jobs} == {JobState.SUCCEEDED}
    return seconds, [_text(front, job) for job in jobs]


def _text(front: Front, job: str) -> str:
    return front.client.get(f"/v1/jobs/{job}/result", params={"format": "text"}).text


def submit(front: Front, recording: bytes, language: str) -> str:
    asked = {"force": "true"} | ({"language": language} if language else {})
    return job_id(front.client.post("/v1/jobs", files={"file": ("a", recording)}, data=asked))


def measure(
    house: Cluster, warm_up: Sequence[bytes], work: dict[str, list[bytes]], language: str
) -> dict[str, list[Timed]]:
    """By work, for one worker and for two."""
    found: dict[str, list[Timed]] = {name: [] for name in work}
    front = None
    for core in CORES:
        with pinned(core):
            house.start_worker()
        front = front or house.start_front()
        timed(house, front, warm_up, language)
        for name, recordings in work.items():
            found[name].append(timed(house, front, recordings, language))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers")
    parser.add_argument("files", nargs="*", type=Path, help="recordings; else the tests' own")
    parser.add_argument("--model", default="whisper-base")
    parser.add_argument("--minutes", type=float, default=12.0, help="of audio, each way")
    parser.add_argument("--language", default="", help="else it is found out, by the first worker")
    parser.add_argument("--only", choices=["archive", "long"])
    given = parser.parse_args()
    files = given.files or [FOLDER / "jfk.wav", *sorted(FOLDER.glob("librivox_*.wav"))]
    work = {
        "archive": archive(files, given.minutes),
        "long": [long_recording(files, given.minutes)],
    }
    wanted = {name: work[name] for name in work if given.only in (None, name)}
    changes = {**AS_SHIPPED, "stt_model": given.model, "tts_model": ""}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        with cluster(data, data / "none", **changes) as house:
            found = measure(house, work["archive"][:WARM_UP], wanted, given.language)
    print(f"{given.model}, {given.minutes:.0f} min of audio, one core for each worker")
    for name, ((one, texts), (two, again)) in found.items():
        same = sum(a == b for a, b in zip(texts, again, strict=True))
        print(
            f"{name:8} {len(work[name]):4} files  1 worker {one:6.1f} s  2 workers {two:6.1f} s"
            f"  speed-up {one / two:.2f}  {same} texts the same"
        )


if __name__ == "__main__":
    main()
