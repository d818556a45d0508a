"""The groups of a long speech that are said already, kept so that a later attempt goes on there.

The samples of a group are a blob of their own, and a row says which text, voice and speed they are
of. The row is written last and is what counts; the blobs go once the speech is whole.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from app.db.records import WindowRow
from app.storage import keys
from models.base import SpeechProvider, Utterance
from tasks.attempt import Attempt
from tasks.kept import identity, kept_rows

SAMPLE_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A group of utterances."""

    pcm: bytes
    """16-bit samples, one utterance after the other."""
    frames: list[int]
    """Of each utterance."""


class Parts:
    def __init__(self, attempt: Attempt, provider: SpeechProvider) -> None:
        self._attempt = attempt
        self._model = identity(provider)
        self._rows = kept_rows(attempt, provider)

    def find(self, number: int, group: Sequence[Utterance]) -> Said | None:
        """What an earlier attempt has said of this very text in this very way."""
        row = self._rows.get(number)
        if row is None or row.transcript.get("work") != self._work(group):
            return None
        self._attempt.leftovers = keys.parts(self._attempt.job.id)
        frames: list[int] = row.transcript["frames"]
        try:
            with self._attempt.services.store.open(row.transcript["key"]) as file:
                pcm = file.read()
        except FileNotFoundError:
            return None
        return Said(pcm=pcm, frames=frames) if len(pcm) == SAMPLE_BYTES * sum(frames) else None

    def keep(self, number: int, group: Sequence[Utterance], said: Said, *, start: int) -> WindowRow:
        """The row to be written at the checkpoint; ``start``: in samples."""
        job = self._attempt.job
        self._attempt.leftovers = keys.parts(job.id)
        blob = self._attempt.services.store.put(
            keys.part(job.id, self._attempt.number, number),
            io.BytesIO(said.pcm),
            content_type="application/octet-stream",
            durable=job.durable,
        )
        return WindowRow(
            number=number,
            start_sample=start,
            end_sample=start + sum(said.frames),
            model=self._model,
            transcript={"work": self._work(group), "key": blob.key, "frames": said.frames},
        )

    def _work(self, group: Sequence[Utterance]) -> str:
        """Of what is said and how: another worker's plan of the same text may be another."""
        options = self._attempt.job.options
        what = [options.get("voice"), options.get("speed"), [asdict(item) for item in group]]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()
