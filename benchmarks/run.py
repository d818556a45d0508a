"""``python -m benchmarks.run stt FILE…``: alternate the systems, print medians and ratios."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.runner import Runner, System
from benchmarks.systems import machine, whisper_systems


def compare(
    systems: list[System], requests: list[dict[str, Any]], *, rounds: int
) -> dict[str, dict[str, Any]]:
    """Median seconds of all requests together for each system, alternated in every round."""
    with ExitStack() as stack:
        runners = [stack.enter_context(Runner(system)) for system in systems]
        times: dict[str, list[float]] = {runner.name: [] for runner in runners}
        texts: dict[str, str] = {}
        for round_ in range(rounds + 1):  # the first one warms up
            for runner in runners:
                answers = [runner.ask(request) for request in requests]
                if round_:
                    times[runner.name].append(sum(answer["seconds"] for answer in answers))
                texts[runner.name] = " ".join(answer.get("text", "") for answer in answers)
        return {
            runner.name: {
                "seconds": statistics.median(times[runner.name]),
                "fastest": min(times[runner.name]),
                "peak_megabytes": runner.peak_megabytes(),
                "text": texts[runner.name],
            }
            for runner in runners
        }


def show(results: dict[str, dict[str, Any]]) -> None:
    own = results["voxqueue"]["seconds"]
    print(f"{'system':30}{'median s':>10}{'fastest s':>11}{'ours / it':>11}{'peak MB':>9}  words")
    for name, result in results.items():
        print(
            f"{name:30}{result['seconds']:10.2f}{result['fastest']:11.2f}"
            f"{own / result['seconds']:11.2f}{result['peak_megabytes']:9.0f}"
            f"  {len(result['text'].split())}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("what", choices=["stt"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", default="whisper-base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow", action="store_true", help="with mlx-whisper as installed")
    parser.add_argument("--only", nargs="*", help="these systems, beside voxqueue")
    parser.add_argument("--texts", action="store_true")
    arguments = parser.parse_args()
    systems = whisper_systems(arguments.model, slow=arguments.slow)
    if arguments.only is not None:
        systems = [s for s in systems if s.name == "voxqueue" or s.name in arguments.only]
    missing = [path for path in arguments.files if not path.is_file()]
    if missing:
        sys.exit(f"no such file: {missing[0]}")
    print(machine())
    requests = [{"file": str(path.absolute())} for path in arguments.files]
    results = compare(systems, requests, rounds=arguments.rounds)
    show(results)
    if arguments.texts:
        print(json.dumps({name: result["text"] for name, result in results.items()}, indent=1))


if __name__ == "__main__":
    main()
