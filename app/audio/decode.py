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
from numpy.typing import NDArray

from app.audio import flac, mp3, wav
from app.audio.geometry import Container, Geometry
from app.audio.limits import Limits, check
from app.audio.sniff import probe, unreadable
from app.audio.splice import Splice
from app.errors import BadAudio

Samples = NDArray[np.float32]

RATE = 16_000  # Hz, what speech models hear
MAX_SECONDS = Limits().max_seconds
BLOCK_FRAMES = (
    65_536  # at most, 2 MB in 8 channels; at most one second, so that slow rates stay small
)
LEAD_SECONDS = 0.25  # decoded before a seek target, far longer than the resampler's filter
MAX_RESYNCS = 100  # stretches of junk passed over in one MP3


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


Positioned = tuple[int, Samples]
"""Position in frames, and a block of shape (frames, channels); sources start at frame `skip`."""


def _frames(file: BinaryIO, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    size = file.seek(0, io.SEEK_END)
    if geometry.container is Container.MP3:
        return _mp3_frames(file, size, geometry, skip)
    if geometry.container is Container.FLAC:
        return _flac_frames(file, size, geometry, skip)
    return _wav_frames(file, size, geometry, skip)


def _wav_frames(file: BinaryIO, size: int, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    found = wav.layout(file, size)
    stop = found.data_start + found.data_bytes
    source = Splice(wav.header(found), file, start=found.data_start, stop=stop)
    if not found.data_bytes:
        return
    try:
        with _open(source, geometry) as sound:
            yield from _sound_frames(sound, skip)
    except soundfile.LibsndfileError as error:
        reason = f"unsupported WAV format {found.format_tag}/{found.bits}-bit: {_why(error)}"
        raise _corrupt(reason) from error


def _flac_frames(file: BinaryIO, size: int, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    prefix, end = flac.endless_header(file), skip
    try:
        with _open(Splice(prefix, file, start=len(prefix), stop=size), geometry) as sound:
            for position, block in _sound_frames(sound, skip):
                end = position + len(block)
                yield position, block
    except soundfile.LibsndfileError as error:
        if geometry.frames is None or end < geometry.frames:  # else a tag after the last frame
            raise _corrupt(f"flac stream ended abnormally: {_why(error)}") from error
    if geometry.frames and not end:
        raise _corrupt("flac stream ended abnormally: no audio frame")


def _mp3_frames(file: BinaryIO, size: int, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    """Frames from each good stretch; mpg123 gives up at junk, so that is passed over here."""
    frame: mp3.Frame | None = mp3.first_frame(file, size, prefix_bytes=size)
    produced, resyncs = 0, 0
    while frame is not None:
        prefix, start = mp3.endless_header(frame)
        source = Splice(prefix, file, start=start, stop=size)
        for block in _mp3_stretch(source, geometry):
            produced += len(block)
            late = max(0, len(block) - max(0, produced - skip))
            if late < len(block):
                yield produced - len(block) + late, block[late:]
        at = max(source.offset_in_file(), frame.end)
        stop = min(size, at + mp3.PREFIX_BYTES)
        frame = mp3.find_frame(file, size, start=at, stop=stop)
        resyncs += 1
        if (frame is None and stop < size) or resyncs > MAX_RESYNCS:
            raise _corrupt(f"mp3 stream ended abnormally: no audio frame after byte {at}")
    if not produced:
        raise _corrupt("mp3 packet failed to decode")


def _mp3_stretch(source: Splice, geometry: Geometry) -> Iterator[Samples]:
    try:
        with _open(source, geometry) as sound:
            for _, block in _sound_frames(sound, 0):
                yield block
    except soundfile.LibsndfileError:
        return  # what follows is searched for the next frame


class _Sequential(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """Does not seek after every read, which is slow and fails on files of unknown length."""

    def seekable(self) -> bool:
        return False


def _open(source: Splice, geometry: Geometry) -> _Sequential:
    sound = _Sequential(source)
    if sound.samplerate != geometry.sample_rate:
        rates = f"{geometry.sample_rate} Hz to {sound.samplerate} Hz"
        raise _corrupt(f"{geometry.container} stream changes sample rate mid-clip ({rates})")
    return sound


def _sound_frames(sound: _Sequential, skip: int) -> Iterator[Positioned]:
    """Read to the end; what was decoded before an error is yielded before it is raised."""
    position = skip
    if skip and (skip >= sound.frames or sound.seek(skip) != skip):
        return
    count = min(BLOCK_FRAMES, sound.samplerate)
    while True:
        block = np.full((count, sound.channels), np.nan, np.float32)
        try:
            block = sound.read(out=block)
        except soundfile.LibsndfileError:
            # The count is lost with the error: frames that were written are no longer NaN.
            written = int(np.isnan(block).all(axis=1).argmax())
            if written:
                yield position, block[:written]
            raise
        if not len(block):
            return
        yield position, block
        position += len(block)


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


def _corrupt(reason: str) -> BadAudio:
    return unreadable(f"audio clip 0 is corrupt: {reason}")


def _why(error: soundfile.LibsndfileError) -> str:
    return error.error_string.strip().rstrip(".") or f"libsndfile error {error.code}"
