"""Asks the systems in turn, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.runner import Message, System

OWN = "voxqueue"
HTTP = "voxqueue over HTTP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Of one system."""

    seconds: tuple[float, ...]
    """All requests together, for each round."""
    audio_seconds: float
    """Of speech heard or spoken in a round."""
    texts: tuple[str, ...] = ()
    peak_megabytes: float | None = None
    added: tuple[float, ...] = ()
    """Over HTTP: the seconds of each request beyond those of the model itself."""
    versions: dict[str, str]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def cost(self) -> float:
        """Seconds for a second of audio."""
        return self.median / self.audio_seconds


Results = dict[str, Result]


def alternate(systems: Sequence[System], requests: Sequence[Message], *, rounds: int) -> Results:
    """One round more than asked for: the first warms up."""
    with ExitStack() as stack:
        started = {system.name: stack.enter_context(system.start()) for system in systems}
        answers: dict[str, list[list[Message]]] = {name: [] for name in started}
        for _ in range(rounds + 1):
            for name, asked in started.items():
                answers[name].append([asked.ask(request) for request in requests])
        return {
            name: _result(answers[name][1:], requests, asked.versions)
            for name, asked in started.items()
        }


def ratios(results: Results) -> dict[str, float]:
    """This project's time by that of each peer, for the same audio."""
    own = results[OWN].cost
    peers = results.keys() - {OWN, HTTP}
    return {name: own / result.cost for name, result in results.items() if name in peers}


def _result(
    rounds: list[list[Message]], requests: Sequence[Message], versions: dict[str, str]
) -> Result:
    """A system that speaks tells how long it spoke; of a recording that is known before."""
    last = rounds[-1]
    audio = (answer | request for answer, request in zip(last, requests, strict=True))
    every = [answer for answers in rounds for answer in answers]
    return Result(
        seconds=tuple(sum(answer["seconds"] for answer in answers) for answers in rounds),
        audio_seconds=sum(both["audio_seconds"] for both in audio),
        texts=tuple(answer["text"] for answer in last if "text" in answer),
        peak_megabytes=last[-1].get("peak_megabytes"),
        added=tuple(a["seconds"] - a["model_seconds"] for a in every if "model_seconds" in a),
        versions=versions,
    )
