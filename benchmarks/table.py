"""Results as a person reads them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.alternate import FEW_BITS, HTTP, OWN, Results, ratios
from benchmarks.cases import Case
from benchmarks.scoring import word_errors

HEAD = (
    f"{'system':32}{'median s':>9}{'fastest':>9}{'rounds':>8}{'x real time':>12}"
    f"{'ours / it':>11}{'8 bits / it':>13}{'peak MB':>9}"
)


def show(case: Case, results: Results) -> None:
    print(f"\n{case.title}")
    print(HEAD + ("  word errors" if case.reference else ""))
    whole = ratios(results, OWN)
    few = ratios(results, FEW_BITS) if FEW_BITS in results else {}
    for name, result in results.items():
        ratio = f"{whole[name]:11.2f}" if name in whole else " " * 11
        ratio += f"{few[name]:13.2f}" if name in few else " " * 13
        peak = f"{result.peak_megabytes:9.0f}" if result.peak_megabytes else " " * 9
        print(
            f"{name:32}{result.median:9.2f}{min(result.seconds):9.2f}"
            f"{len(result.seconds):6}/{result.rounds:<2}{1 / result.cost:11.2f}"
            f"{ratio}{peak}" + _errors(case.reference, " ".join(result.texts))
        )
    if http := results.get(HTTP):
        print(
            f"HTTP: {_milliseconds(http.beyond_job)} beyond the worker's time, "
            f"{_milliseconds(http.beyond_model)} beyond the model's"
        )


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f} ms"


def _errors(reference: str, text: str) -> str:
    if not reference:
        return ""
    wrong, words = word_errors(reference, text)
    return f"  {wrong} of {words}"
