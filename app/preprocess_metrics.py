"""The waveform boundary's numbers, which live in the workers, as this front door shows them.

A worker's counts come with its heartbeat. What one had counted when it was last seen stays in the
sum after its end, so that a counter never falls; what is held at this moment is summed over the
live ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from app.db.records import Worker
from models.preprocess.metrics import GAUGES, render


class PreprocessMetrics:
    def __init__(self) -> None:
        self._counted: dict[str, dict[str, int]] = {}
        """By worker. Few and small: only those with a chat model that hears have any."""
        self._held: Counter[str] = Counter()

    def update(self, live: Iterable[Worker]) -> None:
        counts = {worker.id: worker.audio_counts for worker in live if worker.audio_counts}
        self._counted = {**self._counted, **counts}
        self._held = _sum({name: found[name] for name in GAUGES} for found in counts.values())

    def render(self) -> bytes:
        """In Prometheus' text format; all of them, also where nothing was counted."""
        held = {name: self._held[name] for name in GAUGES}
        return render({**_sum(self._counted.values()), **held}).encode()


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for found in counts:
        total.update(found)
    return total
