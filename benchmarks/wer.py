"""``python -m benchmarks.wer [DIR]``: word error rate by file, beside the peers' (greedy)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import recordings, systems
from benchmarks.recordings import Recording
from benchmarks.runner import System
from benchmarks.scoring import word_errors

PEERS = ("faster-whisper float32", "openai-whisper")

Errors = list[tuple[int, int]]


def texts(system: System, heard: Sequence[Recording]) -> list[str]:
    with system.start() as asked:
        return [asked.ask(one.request)["text"] for one in heard]


def errors(heard: Sequence[Recording], found: Sequence[str]) -> Errors:
    """Wrong words and words of each recording."""
    return [word_errors(one.text, text) for one, text in zip(heard, found, strict=True)]


def total(found: Errors) -> str:
    wrong, words = map(sum, zip(*found, strict=True))
    return f"{wrong}/{words} = {wrong / words:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wer")
    parser.add_argument("directory", nargs="?", type=Path, default=recordings.FOLDER)
    parser.add_argument("--model", default="whisper-base")
    arguments = parser.parse_args()
    heard = recordings.references(arguments.directory)
    if not heard:
        sys.exit(f"benchmarks: {arguments.directory} has no references.tsv")
    peers = [peer for peer in systems.whisper_peers(arguments.model) if peer.name in PEERS]
    compared = [systems.own(arguments.model), *peers]
    columns = {system.name: errors(heard, texts(system, heard)) for system in compared}
    print(f"{'file':20}" + "".join(f"{name:>24}" for name in columns))
    for index, one in enumerate(heard):
        cells = [f"{wrong}/{words}" for wrong, words in (c[index] for c in columns.values())]
        print(f"{one.path.name:20}" + "".join(f"{cell:>24}" for cell in cells))
    print(f"{'total':20}" + "".join(f"{total(column):>24}" for column in columns.values()))


if __name__ == "__main__":
    main()
