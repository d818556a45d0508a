"""Any accepted file to mono float32 blocks at one rate, in bounded memory.

libsndfile decodes, soxr resamples. Headers are mended on the way in, so that lengths they get wrong
neither cut nor stretch the audio, and what comes out is held to the limits: a file that expands
without end is refused after the longest permitted stretch. Knows no model and no window.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import soundfile
import soxr

from app.audio import wav
from app.audio.limits import Limits, check
from app.audio.sniff import corrupt, probe, unreadable
from app.errors import BadAudio
from models.containers import packets
from models.containers.geometry import Container, Geometry, Malformed
from models.containers.packets import Positioned, Samples
from models.containers.splice import Splice

RATE = 16_000  # Hz, what speech models hear
MAX_SECONDS = Limits().max_seconds
LEAD_SECONDS = 0.25  # decoded before a seek target, far longer than the resampler's filter


def blocks(
    file: BinaryIO,
    *,
    rate: int = RATE,
    max_seconds: int = MAX_SECONDS,
    start_seconds: float = 0.0,
    stop_seconds: float | None = None,
) -> Iterator[Samples]:
    """Mono blocks in [-1, 1]; `start_seconds` and `stop_seconds` pick a stretch, to the sample.

    The stretches [a, b) and [b, c) together are [a, c). No samples give no block.
    """
    geometry = _inspect(file, max_seconds)
    # Whole seconds are whole frames at every rate, so the resampled grid is that of the whole file.
    lead = max(0, math.floor(start_seconds - LEAD_SECONDS))
    mono = _within(_frames(file, geometry, lead * geometry.sample_rate), geometry, max_seconds)
    first = round(start_seconds * rate) - lead * rate
    last = None if stop_seconds is None else round(stop_seconds * rate) - lead * rate
    return _cut(_resample(mono, geometry.sample_rate, rate), first, last)


def read(
    file: BinaryIO,
    *,
    rate: int = RATE,
    max_seconds: int = MAX_SECONDS,
    start_seconds: float = 0.0,
    stop_seconds: float | None = None,
) -> Samples:
    """All of `blocks` as one array."""
    parts = blocks(
        file,
        rate=rate,
        max_seconds=max_seconds,
        start_seconds=start_seconds,
        stop_seconds=stop_seconds,
    )
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _inspect(file: BinaryIO, max_seconds: int) -> Geometry:
    """Any size, and any cover art before an MP3: those are bounds on uploads, not on decoding."""
    size = file.seek(0, io.SEEK_END)
    geometry = probe(file, size, mp3_prefix_bytes=size)
    check(geometry, size, Limits(max_bytes=size, max_seconds=max_seconds))
    return geometry


def _frames(file: BinaryIO, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    try:
        if geometry.container is Container.WAV:
            yield from _wav_frames(file, geometry, skip)
        else:
            yield from _packed_frames(file, geometry, skip)
    except Malformed as error:
        raise corrupt(str(error)) from error


def _wav_frames(file: BinaryIO, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    found = wav.layout(file, file.seek(0, io.SEEK_END))
    stop = found.data_start + found.data_bytes
    source = Splice(wav.header(found), file, start=found.data_start, stop=stop)
    if not found.data_bytes:
        return
    try:
        with packets.open_sound(source, geometry) as sound:
            yield from packets.sound_blocks(sound, skip)
    except soundfile.LibsndfileError as error:
        kind = f"unsupported WAV format {found.format_tag}/{found.bits}-bit"
        raise Malformed(f"{kind}: {packets.why(error)}") from error


def _packed_frames(file: BinaryIO, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    empty = skip == 0
    for position, block in packets.blocks(file, geometry, skip):
        empty = False
        yield position, block
    if empty and (geometry.frames or geometry.container is Container.MP3):  # FLAC may be without
        raise Malformed(f"{geometry.container} stream ended abnormally: no audio frame")


def _within(
    source: Iterator[Positioned], geometry: Geometry, max_seconds: int
) -> Iterator[Samples]:
    """Mono, checked and held to the permitted length."""
    cap = max_seconds * geometry.sample_rate
    for position, block in source:
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            frame = position + int(finite.argmin())
            raise unreadable(f"audio clip 0 contains a non-finite sample at frame {frame}")
        if position + len(block) > cap:
            raise BadAudio(
                f"audio is more than {max_seconds}.0 seconds long, maximum is {max_seconds} seconds"
            )
        yield np.clip(block.mean(axis=1, dtype=np.float64), -1, 1).astype(np.float32)


def _resample(mono: Iterator[Samples], source_rate: int, rate: int) -> Iterator[Samples]:
    if source_rate == rate:
        yield from mono
        return
    stream = soxr.ResampleStream(source_rate, rate, 1, dtype="float32", quality="HQ")
    for block in mono:
        yield np.clip(stream.resample_chunk(block), -1, 1)
    yield np.clip(stream.resample_chunk(np.zeros(0, np.float32), last=True), -1, 1)


def _cut(source: Iterator[Samples], first: int, last: int | None) -> Iterator[Samples]:
    """Samples [first, last); nothing is decoded beyond the last."""
    position = 0
    for block in source:
        start = max(0, first - position)
        stop = len(block) if last is None else min(len(block), last - position)
        if start < stop:
            yield block[start:stop]
        position += len(block)
        if last is not None and position >= last:
            return
