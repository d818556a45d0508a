"""``python -m benchmarks.quantised [MODEL…]``: what few bits cost and save.

Size on the disk, seconds until the model is loaded, time for the 11-s clip (in turn), peak memory;
then over the recordings of references.tsv and ten sentences in six voices: word errors, and how
many texts are those of the first model to the last comma.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import recordings, systems
from benchmarks.alternate import alternate
from benchmarks.runner import Program
from benchmarks.wer import errors, texts, total
from models.catalog import checkpoint_path

MODELS = ("whisper-base", "whisper-base-8bit", "whisper-base-4bit")
WEIGHTS = {".bin", ".safetensors"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantised")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    compared = [systems.own(model, model) for model in arguments.models]
    results = alternate(compared, [recordings.clip().request], rounds=arguments.rounds)
    heard = [*recordings.references(), *recordings.spoken()]
    print(
        f"{'model':20}{'MB':>6}{'start s':>9}{'clip s':>8}{'peak MB':>9}  word errors, same texts"
    )
    first: list[str] = []
    for system in compared:
        result, found = results[system.name], texts(system, heard)
        first = first or found
        same = sum(one == other for one, other in zip(first, found, strict=True))
        print(
            f"{system.name:20}{megabytes(checkpoint_path(system.name)):6.0f}{starts(system):9.2f}"
            f"{result.median:8.2f}{result.peak_megabytes:9.0f}  {total(errors(heard, found))}"
            f", {same} of {len(found)}"
        )


def megabytes(checkpoint: Path) -> float:
    return sum(f.stat().st_size for f in checkpoint.iterdir() if f.suffix in WEIGHTS) / 1e6


def starts(system: Program) -> float:
    started = time.perf_counter()
    with system.start():
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
