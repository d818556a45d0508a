"""Text to speech: plan the utterances, say a few at a time, write the WAV as they come."""

from __future__ import annotations

import io
import json
import tempfile
from itertools import islice
from time import perf_counter
from typing import Any, BinaryIO, cast

from app.audio.encode import WavWriter
from app.storage import StoredBlob, keys
from models.base import InputRejected, SpeechProvider
from tasks.attempt import Attempt

UTTERANCES = 4  # said in one model call, so the grain of cancelling and draining
SPOOL_BYTES = 32 << 20  # of speech kept in memory before it goes to a temporary file


def synthesize(attempt: Attempt, provider: SpeechProvider) -> StoredBlob:
    """The speech of the job's text, stored as a 16-bit WAV."""
    options = attempt.job.options
    utterances = provider.plan_speech(options["input"])
    if not utterances:
        raise InputRejected("no phonemes for the input text")
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        file = cast("BinaryIO", spool)
        writer = WavWriter(file, sample_rate=provider.sample_rate)
        remaining, said = iter(utterances), 0
        timing: list[dict[str, Any]] = []
        while group := list(islice(remaining, UTTERANCES)):
            started = perf_counter()
            speech = provider.synthesize(
                group, voice=options.get("voice"), speed=options.get("speed", 1.0)
            )
            for utterance, samples in zip(group, speech, strict=True):
                start = writer.frames / provider.sample_rate
                writer.write(samples)
                end = writer.frames / provider.sample_rate
                timing.append({"start": start, "end": end, "text": utterance.text})
            attempt.metrics["model_seconds"] = (
                attempt.metrics.get("model_seconds", 0.0) + perf_counter() - started
            )
            said += len(group)
            if said < len(utterances):
                attempt.checkpoint(said / len(utterances))
        writer.close()
        attempt.metrics["audio_seconds"] = writer.frames / provider.sample_rate
        file.seek(0)
        _put_timing(attempt, timing)
        key = keys.speech(attempt.job.id, attempt.number)
        return attempt.services.store.put(
            key, file, content_type="audio/wav", durable=attempt.job.durable
        )


def _put_timing(attempt: Attempt, timing: list[dict[str, Any]]) -> None:
    """When each stretch of the original text is said; it lies beside the speech."""
    text = json.dumps(timing, ensure_ascii=False).encode()
    key = keys.timing(attempt.job.id, attempt.number)
    attempt.services.store.put(key, io.BytesIO(text), content_type=keys.content_type(key))
