"""Text to speech: plan the utterances, say a few at a time, write the WAV as they come."""

from __future__ import annotations

import tempfile
from itertools import islice
from time import perf_counter
from typing import BinaryIO, cast

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
        while group := list(islice(remaining, UTTERANCES)):
            started = perf_counter()
            for samples in provider.synthesize(
                group, voice=options.get("voice"), speed=options.get("speed", 1.0)
            ):
                writer.write(samples)
            attempt.metrics["model_seconds"] = (
                attempt.metrics.get("model_seconds", 0.0) + perf_counter() - started
            )
            said += len(group)
            if said < len(utterances):
                attempt.checkpoint(said / len(utterances))
        writer.close()
        attempt.metrics["audio_seconds"] = writer.frames / provider.sample_rate
        file.seek(0)
        key = keys.speech(attempt.job.id, attempt.number)
        return attempt.services.store.put(key, file, content_type="audio/wav")
