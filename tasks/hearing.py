"""One worker's way through a recording: decoded by blocks, cut into windows, heard batch by batch.

Every worker that opens the same recording cuts the same windows, so several may each hear some of
them. Who hears what is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any, BinaryIO

from app.audio import decode
from app.audio.windows import Window, join, plan, stitch
from app.db.records import WindowRow
from app.errors import Gone
from app.states import Kind
from models.base import GivenUp, ModelInfo, SpeechProvider, TranscribeOptions
from models.transcript import Transcript, WindowTranscript
from tasks.attempt import Attempt
from tasks.kept import identity

FIRST = 0  # number of a recording's first window


@dataclass(slots=True, kw_only=True)
class Hearing:
    attempt: Attempt
    provider: SpeechProvider
    done: dict[int, WindowRow]
    """By number, whoever heard them and when."""
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first sample of each window and the one after its last, as far as it has been cut."""
    adopted: int = 0
    """Samples in the windows that others have heard meanwhile."""

    @property
    def model(self) -> str:
        return identity(self.provider)

    @property
    def seconds(self) -> float:
        """Of what has been cut."""
        return self.spans[len(self.spans) - 1][1] / self.provider.sample_rate if self.spans else 0.0

    def batches(self, file: BinaryIO) -> Iterator[list[Window]]:
        """Each is decoded when it is asked for."""
        settings, rate = self.attempt.services.settings, self.provider.sample_rate
        limit = settings.max_seconds(self.attempt.job.lane)
        blocks = decode.blocks(file, rate=rate, max_seconds=limit)
        windows = plan(blocks, rate=rate, max_seconds=self.provider.window_seconds)
        while batch := self._decode(windows, settings.window_batch):
            yield batch

    def _decode(self, windows: Iterator[Window], count: int) -> list[Window]:
        with self.attempt.stage("decode"):
            batch = list(islice(windows, count))
        self.spans |= {window.number: (window.start, window.end) for window in batch}
        return batch

    def is_done(self, number: int) -> bool:
        row = self.done.get(number)
        return row is not None and self._fits(row)

    def _fits(self, row: WindowRow) -> bool:
        """Other settings may have cut the recording elsewhere."""
        return self.spans.get(row.number) == (row.start_sample, row.end_sample)

    def missing(self, batch: Iterable[Window]) -> list[Window]:
        return [window for window in batch if not self.is_done(window.number)]

    def unheard(self) -> list[int]:
        return [number for number in self.spans if not self.is_done(number)]

    def adopt(self, rows: Iterable[WindowRow]) -> None:
        """Take over what others have heard with the same model."""
        for row in rows:
            if row.model == self.model and self._fits(row) and not self.is_done(row.number):
                self.done[row.number] = row
                self.adopted += samples_in([row])

    def hear(self, batch: Iterable[Window]) -> list[WindowRow]:
        """What was missing of the batch."""
        windows = self.missing(batch)
        with model_call(self.attempt):
            texts = self.provider.transcribe([w.samples for w in windows], self._options())
        rows = [self.row(window, text) for window, text in zip(windows, texts, strict=True)]
        self.done |= {row.number: row for row in rows}
        return rows

    def _options(self) -> TranscribeOptions:
        """The language of the first window is that of all, unless the caller has named one."""
        given = options(self.attempt, self.provider.info)
        found = text_of(self.done[FIRST]).language if self.is_done(FIRST) else None
        return replace(given, language=given.language or found)

    def row(self, window: Window, text: WindowTranscript) -> WindowRow:
        return WindowRow(
            number=window.number,
            start_sample=window.start,
            end_sample=window.end,
            model=self.model,
            transcript=text.to_json(),
        )

    def progress(self, samples: int) -> float:
        """With so many heard; never less than was told before."""
        total = self.attempt.job.input_seconds
        reached = samples / self.provider.sample_rate / total if total else 0.0
        return max(min(reached, 0.99), self.attempt.job.progress)

    def text(self) -> str:
        """As far as it is known without a gap."""
        return join([text_of(self.done[number]) for number in takewhile(self.is_done, self.spans)])

    def transcript(self) -> Transcript:
        rows, rate = [self.done[number] for number in self.spans], self.provider.sample_rate
        parts = [(row.start_sample / rate, text_of(row)) for row in rows]
        whole = stitch(parts, duration=self.seconds)
        return replace(whole, task=self._options().task, model=self.provider.info.name)


@contextmanager
def opened(attempt: Attempt) -> Iterator[BinaryIO]:
    """The job's recording."""
    with ExitStack() as stack:
        blob = attempt.services.store.open(attempt.job.input_key or "")
        try:
            with attempt.stage("fetch"):
                file = stack.enter_context(blob)
        except FileNotFoundError as error:
            raise Gone("The recording has been deleted.") from error
        yield file


@contextmanager
def model_call(attempt: Attempt) -> Iterator[None]:
    try:
        with attempt.stage("model"):
            yield
    except GivenUp:
        attempt.checkpoint(attempt.job.progress)  # raises the reason
        raise


def options(attempt: Attempt, info: ModelInfo) -> TranscribeOptions:
    given = attempt.job.options
    return TranscribeOptions(
        language=given.get("language"),
        task="translate" if attempt.job.kind is Kind.TRANSLATION else "transcribe",
        timestamps=given.get("timestamps", False),
        prompt=_prompt(given, info),
        temperature=given.get("temperature") or 0.0,
        max_tokens=given.get("max_tokens"),
        cancelled=attempt.must_stop,
    )


def _prompt(given: dict[str, Any], info: ModelInfo) -> str | None:
    """What a chat model is told to do; Whisper takes it for the words spoken before.

    It is given those only where a dialect means them so: on /v1 Whisper ignores the prompt.
    """
    if info.family == "whisper" and not given.get("prompt_is_context"):
        return None
    return given.get("prompt")


def samples_in(rows: Iterable[WindowRow]) -> int:
    return sum(row.end_sample - row.start_sample for row in rows)


def text_of(row: WindowRow) -> WindowTranscript:
    return WindowTranscript.from_json(row.transcript)
