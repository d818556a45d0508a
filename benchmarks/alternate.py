"""Asks the systems in turn, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.load import QUIET, Others
from benchmarks.runner import Asked, Message, System

OWN = "voxqueue"
FEW_BITS = "voxqueue in 8 bits"
HTTP = "voxqueue over HTTP"
OURS = (OWN, FEW_BITS, HTTP)
SETTLE_SECONDS = 0.5  # some libraries' threads spin for a while after their last product


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Of one system."""

    seconds: tuple[float, ...]
    """All requests together, for each round that counts."""
    rounds: int
    """Of which those count that nothing else disturbed; all of them, if every one was."""
    audio_seconds: float
    """Of speech heard or spoken in a round."""
    texts: tuple[str, ...] = ()
    peak_megabytes: float | None = None
    beyond_job: tuple[float, ...] = ()
    """Over HTTP: seconds of each request less those that a worker had it for."""
    beyond_model: tuple[float, ...] = ()
    """The same less those of the model only: with reading the audio and storing the result."""
    versions: dict[str, str]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def cost(self) -> float:
        """Seconds for a second of audio."""
        return self.median / self.audio_seconds


Results = dict[str, Result]


@dataclass(frozen=True, slots=True)
class Round:
    answers: list[Message]
    others: float
    """Share of the machine that other processes had meanwhile."""


def alternate(systems: Sequence[System], requests: Sequence[Message], *, rounds: int) -> Results:
    """One round more than asked for: the first warms up."""
    with ExitStack() as stack:
        started = {system.name: stack.enter_context(system.start()) for system in systems}
        done: dict[str, list[Round]] = {name: [] for name in started}
        for _ in range(rounds + 1):
            for name, asked in started.items():
                done[name].append(_round(asked, requests))
        return {
            name: _result(done[name][1:], requests, asked.versions)
            for name, asked in started.items()
        }


def ratios(results: Results, of: str = OWN) -> dict[str, float]:
    """One of this project's times by that of each peer, for the same audio."""
    own = results[of].cost
    return {name: own / result.cost for name, result in results.items() if name not in OURS}


def _round(asked: Asked, requests: Sequence[Message]) -> Round:
    time.sleep(SETTLE_SECONDS)
    others = Others()
    answers = [asked.ask(request) for request in requests]
    return Round(answers, others.share())


def _result(rounds: list[Round], requests: Sequence[Message], versions: dict[str, str]) -> Result:
    """A system that speaks tells how long it spoke; of a recording that is known before."""
    quiet = [one for one in rounds if one.others <= QUIET] or rounds
    last = rounds[-1].answers
    audio = (answer | request for answer, request in zip(last, requests, strict=True))
    every = [answer for one in quiet for answer in one.answers]
    return Result(
        seconds=tuple(sum(answer["seconds"] for answer in one.answers) for one in quiet),
        rounds=len(rounds),
        audio_seconds=sum(both["audio_seconds"] for both in audio),
        texts=tuple(answer["text"] for answer in last if "text" in answer),
        peak_megabytes=last[-1].get("peak_megabytes"),
        beyond_job=tuple(a["beyond_job"] for a in every if "beyond_job" in a),
        beyond_model=tuple(a["beyond_model"] for a in every if "beyond_model" in a),
        versions=versions,
    )
