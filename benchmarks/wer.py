"""``python -m benchmarks.wer [DIR]``: word error rate by file, beside faster-whisper's (greedy)."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from benchmarks.runner import ROOT, Runner
from benchmarks.scoring import word_errors
from benchmarks.systems import whisper_systems

SYSTEMS = ("voxqueue", "faster-whisper float32", "openai-whisper")
REFUSED = {".aiff"}  # a container that is not served


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wer")
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT.parent / "shared/audio")
    parser.add_argument("--model", default="whisper-base")
    arguments = parser.parse_args()
    with (arguments.directory / "references.tsv").open(encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            if Path(row["file"]).suffix not in REFUSED
        ]
    systems = [s for s in whisper_systems(arguments.model, slow=False) if s.name in SYSTEMS]
    columns: dict[str, list[tuple[int, int]]] = {}
    for system in systems:
        with Runner(system) as runner:
            texts = [runner.ask({"file": str(arguments.directory / r["file"])}) for r in rows]
        columns[system.name] = [
            word_errors(row["text"], answer["text"])
            for row, answer in zip(rows, texts, strict=True)
        ]
    print(f"{'file':20}" + "".join(f"{name:>24}" for name in columns))
    for index, row in enumerate(rows):
        cells = [f"{wrong}/{words}" for wrong, words in (c[index] for c in columns.values())]
        print(f"{row['file']:20}" + "".join(f"{cell:>24}" for cell in cells))
    totals = [tuple(map(sum, zip(*column, strict=True))) for column in columns.values()]
    cells = [f"{wrong}/{words} = {wrong / words:.3f}" for wrong, words in totals]
    print(f"{'total':20}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
