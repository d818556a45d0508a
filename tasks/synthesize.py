"""Text to speech: plan the utterances, say a few at a time, write the WAV as they come.

A text of more than one such group keeps what is said of it, so that a later attempt says only the
rest. The groups are the same in every attempt, and so are the bytes.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from app.audio.encode import WavWriter, pcm16
from app.storage import StoredBlob, keys
from models.base import InputRejected, SpeechProvider, Utterance
from tasks.attempt import Attempt
from tasks.parts import Parts, Said

UTTERANCES = 4  # said in one model call, so the grain of cancelling, draining and making room
SPOOL_BYTES = 32 << 20  # of speech kept in memory before it goes to a temporary file

Group = Sequence[Utterance]


def synthesize(attempt: Attempt, provider: SpeechProvider) -> StoredBlob:
    """The speech of the job's text, stored as a 16-bit WAV."""
    utterances = provider.plan_speech(attempt.job.options["input"])
    if not utterances:
        raise InputRejected("no phonemes for the input text")
    groups = [utterances[n : n + UTTERANCES] for n in range(0, len(utterances), UTTERANCES)]
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        file = cast("BinaryIO", spool)
        writer = WavWriter(file, sample_rate=provider.sample_rate)
        timing = _say_all(attempt, provider, groups, writer)
        writer.close()
        attempt.metrics["audio_seconds"] = writer.frames / provider.sample_rate
        file.seek(0)
        _put_timing(attempt, timing)
        key = keys.speech(attempt.job.id, attempt.number)
        with attempt.stage("store"):
            return attempt.services.store.put(
                key, file, content_type="audio/wav", durable=attempt.job.durable
            )


def _say_all(
    attempt: Attempt, provider: SpeechProvider, groups: Sequence[Group], writer: WavWriter
) -> list[dict[str, Any]]:
    """Group by group, with a checkpoint between two of them; the timing of all utterances."""
    parts = Parts(attempt, provider)
    timing: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        kept = parts.find(number, group)
        said = kept or _say(attempt, provider, group)
        start = writer.frames
        writer.write_pcm(said.pcm)
        timing += _spans(group, said, start, provider.sample_rate)
        done = number + 1
        if done < len(groups) and not kept:
            attempt.checkpoint(done / len(groups), [parts.keep(number, group, said, start=start)])
    return timing


def _say(attempt: Attempt, provider: SpeechProvider, group: Group) -> Said:
    options = attempt.job.options
    with attempt.stage("model"):
        speech = provider.synthesize(
            group, voice=options.get("voice"), speed=options.get("speed", 1.0)
        )
    with attempt.stage("encode"):
        pcm = b"".join(pcm16(samples).tobytes() for samples in speech)
    return Said(pcm=pcm, frames=[len(samples) for samples in speech])


def _spans(group: Group, said: Said, start: int, rate: int) -> list[dict[str, Any]]:
    spans = []
    for utterance, frames in zip(group, said.frames, strict=True):
        end = start + frames
        spans.append({"start": start / rate, "end": end / rate, "text": utterance.text})
        start = end
    return spans


def _put_timing(attempt: Attempt, timing: list[dict[str, Any]]) -> None:
    """When each stretch of the original text is said; it lies beside the speech."""
    text = json.dumps(timing, ensure_ascii=False).encode()
    key = keys.timing(attempt.job.id, attempt.number)
    attempt.services.store.put(key, io.BytesIO(text), content_type=keys.content_type(key))
