"""Speech to text: the recording's windows, a batch of them in each model call, joined in order.

A long recording keeps its finished windows in the database, so that a later attempt does only the
rest and other workers can do a part. A short one is a single model call and keeps none. A model
that decodes by itself gets the recording of a waiting caller whole, as it came in, and answers for
its bounds; the bulk lane's are longer and in more containers than any such model takes, so those
are cut into windows for it too.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import BinaryIO

from app.states import Lane
from app.storage import StoredBlob, keys
from models.base import ModelInfo, RecordingProvider, SpeechProvider
from models.transcript import Transcript
from tasks.attempt import Attempt
from tasks.hearing import Hearing, model_call, opened, options
from tasks.kept import kept_rows
from tasks.sharing import Sharing
from tasks.telling import Telling


def transcribe(attempt: Attempt, provider: SpeechProvider) -> StoredBlob:
    """The transcript of the job's recording, stored as JSON."""
    job, services = attempt.job, attempt.services
    with opened(attempt) as file:
        if isinstance(provider, RecordingProvider) and job.lane is Lane.INTERACTIVE:
            transcript = _hear_recording(attempt, provider, provider.info, file.read())
        else:
            transcript = _hear_windows(attempt, provider, file)
    attempt.metrics["audio_seconds"] = transcript.duration
    with attempt.stage("encode"):
        text = json.dumps(transcript.to_json(), ensure_ascii=False).encode()
    key = keys.transcript(job.id, attempt.number)
    with attempt.stage("store"):
        return services.store.put(
            key, io.BytesIO(text), content_type="application/json", durable=job.durable
        )


def _hear_recording(
    attempt: Attempt, provider: RecordingProvider, info: ModelInfo, data: bytes
) -> Transcript:
    telling = Telling(attempt, streams=info.streams)
    given = replace(options(attempt, info), on_text=telling.add)
    with model_call(attempt):
        return provider.transcribe_recording(data, given)


def _hear_windows(attempt: Attempt, provider: SpeechProvider, file: BinaryIO) -> Transcript:
    hearing = Hearing(attempt=attempt, provider=provider, done=kept_rows(attempt, provider))
    telling = Telling(attempt, streams=provider.info.streams)
    sharing = Sharing(hearing=hearing, allowed=not telling.open)
    if attempt.number == 1 and attempt.job.options.get("language"):
        sharing.invite()
    _go_through(hearing, sharing, telling, file)
    while not sharing.is_complete():
        _go_through(hearing, sharing, telling, file)
    if hearing.adopted:
        attempt.metrics["helped_seconds"] = hearing.adopted / provider.sample_rate
    return hearing.transcript()


def _go_through(hearing: Hearing, sharing: Sharing, telling: Telling, file: BinaryIO) -> None:
    """Hear batch by batch what nobody has heard, with a checkpoint between two of them."""
    batches = hearing.batches(file)
    batch = next(batches, [])
    while batch:
        following = next(batches, [])
        mine = hearing.missing(batch) and sharing.take(batch)
        rows = hearing.hear(batch) if mine else []
        if telling.open:
            telling.reach(hearing.text())
        if rows and (following or sharing.open):
            hearing.attempt.checkpoint(sharing.progress(rows), rows)
        if rows and following:
            sharing.invite()
        batch = following
