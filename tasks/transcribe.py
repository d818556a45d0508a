"""Speech to text: decode by blocks, cut into windows, a batch of windows in each model call.

A long recording keeps its finished windows in the database, so that a later attempt does only the
rest. A short one is a single model call and keeps none. A model that decodes by itself gets the
recording of a waiting caller whole, as it came in, and answers for its bounds; the bulk lane's are
longer and in more containers than any such model takes, so those are cut into windows for it too.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

from app.audio import decode
from app.audio.windows import Window, join, plan, stitch
from app.db.records import WindowRow
from app.errors import Gone
from app.states import Kind, Lane
from app.storage import StoredBlob, keys
from models.base import (
    GivenUp,
    ModelInfo,
    RecordingProvider,
    SpeechProvider,
    TranscribeOptions,
)
from models.transcript import Transcript, WindowTranscript
from tasks.attempt import Attempt
from tasks.kept import identity, kept_rows
from tasks.telling import Telling

Heard = tuple[Window, WindowTranscript]


def transcribe(attempt: Attempt, provider: SpeechProvider) -> StoredBlob:
    """The transcript of the job's recording, stored as JSON."""
    job, services = attempt.job, attempt.services
    with _opened(attempt) as file:
        if isinstance(provider, RecordingProvider) and job.lane is Lane.INTERACTIVE:
            transcript = _hear_recording(attempt, provider, provider.info, file.read())
        else:
            transcript = _hear_file(attempt, provider, file)
    with attempt.stage("encode"):
        text = json.dumps(transcript.to_json(), ensure_ascii=False).encode()
    key = keys.transcript(job.id, attempt.number)
    with attempt.stage("store"):
        return services.store.put(
            key, io.BytesIO(text), content_type="application/json", durable=job.durable
        )


@contextmanager
def _opened(attempt: Attempt) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        opened = attempt.services.store.open(attempt.job.input_key or "")
        try:
            with attempt.stage("fetch"):
                file = stack.enter_context(opened)
        except FileNotFoundError as error:
            raise Gone("The recording has been deleted.") from error
        yield file


def _hear_recording(
    attempt: Attempt, provider: RecordingProvider, info: ModelInfo, data: bytes
) -> Transcript:
    telling = Telling(attempt, streams=info.streams)
    options = replace(_options(attempt, info), on_text=telling.add)
    with _model_call(attempt):
        transcript = provider.transcribe_recording(data, options)
    attempt.metrics["audio_seconds"] = transcript.duration
    return transcript


def _hear_file(attempt: Attempt, provider: SpeechProvider, file: BinaryIO) -> Transcript:
    limit = attempt.services.settings.max_seconds(attempt.job.lane)
    blocks = decode.blocks(file, rate=provider.sample_rate, max_seconds=limit)
    windows = plan(blocks, rate=provider.sample_rate, max_seconds=provider.window_seconds)
    return _hear(attempt, provider, windows)


@contextmanager
def _model_call(attempt: Attempt) -> Iterator[None]:
    try:
        with attempt.stage("model"):
            yield
    except GivenUp:
        attempt.checkpoint(attempt.job.progress)  # raises the reason
        raise


def _hear(attempt: Attempt, provider: SpeechProvider, windows: Iterable[Window]) -> Transcript:
    """Transcribe batch by batch, with a checkpoint between two batches."""
    rate, options = provider.sample_rate, _options(attempt, provider.info)
    batches = _batches(windows, attempt.services.settings.window_batch)
    kept = kept_rows(attempt, provider)
    parts: list[tuple[float, WindowTranscript]] = []
    telling = Telling(attempt, streams=provider.info.streams)
    end = 0
    batch = _decoded(attempt, batches)
    while batch:
        following = _decoded(attempt, batches)
        heard = _hear_batch(attempt, provider, batch, options, kept)
        parts += [(window.start / rate, text) for window, text in heard]
        if telling.open:
            telling.reach(join([text for _, text in parts]))
        options = replace(options, language=options.language or parts[0][1].language)
        end = batch[-1].end
        new = [_row(provider, *item) for item in heard if item[0].number not in kept]
        if following and new:
            attempt.checkpoint(_progress(attempt, end / rate), new)
        batch = following
    attempt.metrics["audio_seconds"] = end / rate
    transcript = stitch(parts, duration=end / rate)
    return replace(transcript, task=options.task, model=provider.info.name)


def _hear_batch(
    attempt: Attempt,
    provider: SpeechProvider,
    batch: list[Window],
    options: TranscribeOptions,
    kept: dict[int, WindowRow],
) -> list[Heard]:
    """The windows of an earlier attempt as they are, the others from the model."""
    for window in batch:
        if window.number in kept and not _fits(kept[window.number], window):
            del kept[window.number]  # other settings cut the recording elsewhere
    new = [window for window in batch if window.number not in kept]
    with _model_call(attempt):
        texts = provider.transcribe([window.samples for window in new], options) if new else []
    heard = {window.number: text for window, text in zip(new, texts, strict=True)}
    return [(window, heard.get(window.number) or _text(kept[window.number])) for window in batch]


def _options(attempt: Attempt, info: ModelInfo) -> TranscribeOptions:
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


def _progress(attempt: Attempt, seconds: float) -> float:
    total = attempt.job.input_seconds
    return min(seconds / total, 0.99) if total else 0.0


def _fits(row: WindowRow, window: Window) -> bool:
    return (row.start_sample, row.end_sample) == (window.start, window.end)


def _text(row: WindowRow) -> WindowTranscript:
    return WindowTranscript.from_json(row.transcript)


def _row(provider: SpeechProvider, window: Window, text: WindowTranscript) -> WindowRow:
    return WindowRow(
        number=window.number,
        start_sample=window.start,
        end_sample=window.end,
        model=identity(provider),
        transcript=text.to_json(),
    )


def _batches(windows: Iterable[Window], size: int) -> Iterator[list[Window]]:
    iterator = iter(windows)
    while batch := list(islice(iterator, size)):
        yield batch


def _decoded(attempt: Attempt, batches: Iterator[list[Window]]) -> list[Window]:
    """The next batch, which is decoded only now; empty at the end."""
    with attempt.stage("decode"):
        return next(batches, [])
