"""A stream of samples as windows that a model can take, and the windows' texts as one transcript.

Windows are cut in a pause near their end; together they are the input, no sample lost or doubled.
Pure, and in constant memory; knows no file and no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from models.pauses import quiet_cut
from models.transcript import SPACELESS, Segment, Transcript, Usage, WindowTranscript

Samples = NDArray[np.float32]

RATE = 16_000  # Hz
WINDOW_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    number: int
    """From 0."""
    start: int
    """Samples from the start of the recording."""
    samples: Samples

    @property
    def end(self) -> int:
        return self.start + len(self.samples)


def plan(
    blocks: Iterable[Samples], *, rate: int = RATE, max_seconds: float = WINDOW_SECONDS
) -> Iterator[Window]:
    """Windows of at most `max_seconds`; holds one window and one block at a time."""
    size = int(max_seconds * rate)
    held: list[Samples] = []
    length = number = start = 0
    for block in blocks:
        held.append(block)
        length += len(block)
        while length > size:
            samples = held[0] if len(held) == 1 else np.concatenate(held)
            cut = quiet_cut(samples[:size], rate=rate)
            yield Window(number=number, start=start, samples=samples[:cut])
            held, length = [samples[cut:]], length - cut
            number, start = number + 1, start + cut
    if length:
        yield Window(number=number, start=start, samples=np.concatenate(held))


def stitch(
    parts: Sequence[tuple[float, WindowTranscript]],
    duration: float,
    *,
    task: str = "transcribe",
    model: str = "",
) -> Transcript:
    """Join windows, each with its start in seconds, in the order given."""
    ends = [*(start for start, _ in parts[1:]), duration][: len(parts)]
    spans = [
        _segments(start, end, window) for (start, window), end in zip(parts, ends, strict=True)
    ]
    return Transcript(
        text=join([window for _, window in parts]),
        language=next((w.language for _, w in parts if w.text.strip()), _first_language(parts)),
        duration=duration,
        task=task,
        model=model,
        segments=tuple(_monotonic(chain.from_iterable(spans), duration)),
        usage=sum((window.usage for _, window in parts), Usage()),
    )


def _first_language(parts: Sequence[tuple[float, WindowTranscript]]) -> str:
    return parts[0][1].language if parts else ""


def join(windows: Sequence[WindowTranscript]) -> str:
    """The text of consecutive windows; that of more windows starts with that of fewer."""
    text = ""
    for window in windows:
        piece = window.text.strip()
        if not piece:
            continue
        apart = window.language not in SPACELESS or window.text[0].isspace()
        text += f" {piece}" if text and apart else piece
    return text


def _segments(start: float, end: float, window: WindowTranscript) -> Iterator[Segment]:
    """The window's segments on the recording's clock, none beyond the window's end."""
    if not window.segments and window.text.strip():
        yield Segment(start=start, end=end, text=window.text)
    for segment in window.segments:
        yield replace(
            segment,
            start=min(start + segment.start, end),
            end=min(start + segment.end, end),
        )


def _monotonic(segments: Iterable[Segment], duration: float) -> Iterator[Segment]:
    reached = 0.0
    for segment in segments:
        start = min(max(segment.start, reached), duration)
        reached = min(max(segment.end, start), duration)
        yield replace(segment, start=start, end=reached)
