"""``python -m benchmarks.archive DIR…``: ``voxqueue transcribe`` beside loops of faster-whisper.

Each is timed whole, from an empty process to the last text, and in turn with the others. The loops
know nothing of queues, retries or reports: what those cost is what is looked for here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.archive.finding import find
from app.archive.folders import LocalSource, Rules
from app.archive.report import Report
from app.db import queries
from app.db.engine import Database
from app.db.records import Job
from app.settings import PREFIX, Settings
from benchmarks import systems, weights
from benchmarks.alternate import FEW_BITS, OWN
from benchmarks.runner import ROOT, Asked, Program
from benchmarks.scoring import word_errors

PLAIN, BATCHED = "faster-whisper int8", "faster-whisper int8 batched"
LONG_SECONDS = 30.0  # of a recording that has more than one window
JOBS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Of one system over all recordings."""

    start: float
    """Seconds until it could begin."""
    work: float
    texts: dict[Path, str]
    note: str = ""

    @property
    def seconds(self) -> float:
        return self.start + self.work


Recordings = dict[Path, float]  # seconds of audio
System = Callable[[Recordings], Pass]


def recordings(folders: Sequence[str]) -> Recordings:
    limit = Settings().batch_max_bytes
    return {
        item.source.path.absolute(): item.seconds
        for item in find(list(folders), Rules(), max_bytes=limit)
        if isinstance(item.source, LocalSource) and item.seconds
    }


def own(model: str) -> System:
    return lambda heard: _transcribed(model, heard)


def _transcribed(model: str, heard: Recordings) -> Pass:
    """The command with a service of its own, which starts from nothing."""
    with tempfile.TemporaryDirectory() as work:
        out, data = Path(work, "out"), Path(work, "data")
        command = [sys.executable, "-m", "app.cli", "transcribe", *map(str, heard)]
        started = time.perf_counter()
        subprocess.run(
            [*command, "--out", str(out), "--data-dir", str(data)],
            cwd=ROOT,
            check=True,
            env={**os.environ, f"{PREFIX}STT_MODEL": model, f"{PREFIX}TTS_MODEL": ""},
            stderr=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - started
        with Report(out / "voxqueue-report.jsonl") as report:
            entries = list(report.entries.values())
        texts = {Path(entry.id): Path(entry.outputs[0]).read_text() for entry in entries}
        jobs = list(_jobs(data))
    begun = min(job.created_at for job in jobs)
    ended = max(job.finished_at for job in jobs if job.finished_at)
    busy = (ended - begun).total_seconds()
    return Pass(start=seconds - busy, work=busy, texts=texts, note=_spent(jobs, busy))


def _jobs(data: Path) -> Iterator[Job]:
    database = Database(Settings(data_dir=data).resolved_database_url)
    with database.reading() as connection:
        page: list[Job] = queries.list_jobs(connection, limit=JOBS_AT_ONCE)
        while page:
            yield from page
            page = queries.list_jobs(connection, after=page[-1], limit=JOBS_AT_ONCE)
    database.close()


def _spent(jobs: Sequence[Job], busy: float) -> str:
    def total(name: str) -> float:
        return sum((job.metrics or {}).get(name, 0.0) for job in jobs)

    model, decode, run = total("model_seconds"), total("decode_seconds"), total("run_seconds")
    return (
        f"model {model:.1f} s, decoding {decode:.1f} s, all of the worker's jobs {run:.1f} s; "
        f"{100 * (busy - model) / model:.0f} % beyond the model"
    )


def loop(short: Program, long: Program) -> System:
    """A plain loop; loading the weights counts once."""

    def work(heard: Recordings) -> Pass:
        with ExitStack() as stack:
            began = time.perf_counter()
            asked: dict[str, Asked] = {short.name: stack.enter_context(short.start())}
            start = time.perf_counter() - began
            if long.name not in asked:
                asked[long.name] = stack.enter_context(long.start())
            answers = {
                path: asked[(long if seconds > LONG_SECONDS else short).name].ask(
                    {"file": str(path)}
                )
                for path, seconds in heard.items()
            }
        return Pass(
            start=start,
            work=sum(answer["seconds"] for answer in answers.values()),
            texts={path: answer["text"] for path, answer in answers.items()},
        )

    return work


def ours(model: str) -> dict[str, System]:
    return {OWN: own(model), FEW_BITS: own(str(weights.in_few_bits(model)))}


def compared(model: str) -> dict[str, System]:
    peers = {peer.name: peer for peer in systems.whisper_peers(model)}
    if PLAIN not in peers:
        sys.exit("benchmarks: no faster-whisper: `make peers`")
    plain, batched = peers[PLAIN], peers[BATCHED]
    return {
        **ours(model),
        f"{PLAIN}, long ones batched by 8": loop(plain, batched),
        f"{PLAIN}, one by one": loop(plain, plain),
    }


def show(passes: dict[str, list[Pass]], heard: Recordings) -> None:
    hours = sum(heard.values()) / 3600
    medians = {name: statistics.median(p.seconds for p in done) for name, done in passes.items()}
    texts = passes[OWN][-1].texts
    print(f"{len(heard)} recordings, {60 * hours:.1f} min")
    print(
        f"{'system':44}{'start s':>8}{'work s':>8}{'h an hour':>10}"
        f"{'ours by it':>11}{'8 bits by it':>13}  words"
    )
    for name, done in passes.items():
        pairs = [word_errors(done[-1].texts[path], texts[path]) for path in heard]
        wrong, words = map(sum, zip(*pairs, strict=True))
        start = statistics.median(p.start for p in done)
        print(
            f"{name:44}{start:8.1f}{medians[name] - start:8.1f}"
            f"{3600 * hours / medians[name]:10.1f}"
            f"{medians[OWN] / medians[name]:11.2f}{medians[FEW_BITS] / medians[name]:13.2f}"
            f"  {wrong} of {words} differ"
        )
    for name in (OWN, FEW_BITS):
        for done in passes[name]:
            print(f"{name}: {done.note}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.archive")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--model", default="whisper-base")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=[OWN], help="without the peers")
    arguments = parser.parse_args()
    heard = recordings(arguments.folders)
    if not heard:
        sys.exit("benchmarks: no recordings there")
    chosen = ours(arguments.model) if arguments.only else compared(arguments.model)
    passes: dict[str, list[Pass]] = {name: [] for name in chosen}
    for _ in range(arguments.rounds):
        for name, system in chosen.items():
            passes[name].append(system(heard))
    show(passes, heard)


if __name__ == "__main__":
    main()
