"""The samples of MP3 and FLAC files, block by block, through libsndfile.

Headers are mended on the way in, so that lengths they get wrong neither cut nor stretch the audio.
Bounds nothing: whoever reads the blocks counts them and stops. `Malformed` says what broke.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from models.containers import flac, mp3
from models.containers.geometry import Container, Geometry, Malformed
from models.containers.splice import Splice

Samples = NDArray[np.float32]
Positioned = tuple[int, Samples]
"""Position in frames, and a block of shape (frames, channels); sources start at frame `skip`."""

BLOCK_FRAMES = (
    65_536  # at most, 2 MB in 8 channels; at most one second, so that slow rates stay small
)
UNIMPLEMENTED = 18  # libsndfile's error for what it knows of but does not read, as 12-bit FLAC
MAX_RESYNCS = 100  # stretches of junk passed over in one MP3


def blocks(file: BinaryIO, geometry: Geometry, skip: int = 0) -> Iterator[Positioned]:
    """Blocks of an MP3 or FLAC file from frame `skip` to the true end."""
    size = file.seek(0, io.SEEK_END)
    if geometry.container is Container.MP3:
        return _mp3_blocks(file, size, geometry, skip)
    return _flac_blocks(file, size, geometry, skip)


def _flac_blocks(file: BinaryIO, size: int, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    prefix, end = flac.endless_header(file), skip
    try:
        source = Splice(prefix, file, start=len(prefix), stop=size)
        with open_sound(source, geometry) as sound:
            for position, block in sound_blocks(sound, skip):
                end = position + len(block)
                yield position, block
    except soundfile.LibsndfileError as error:
        if error.code == UNIMPLEMENTED:
            raise Malformed(f"flac codec is not supported: {why(error)}") from error
        if geometry.frames is None or end < geometry.frames:  # else a tag after the last frame
            raise Malformed(f"flac stream ended abnormally: {why(error)}") from error


def _mp3_blocks(file: BinaryIO, size: int, geometry: Geometry, skip: int) -> Iterator[Positioned]:
    """Frames from each good stretch; mpg123 gives up at junk, so that is passed over here.

    There may be none, as in a file of nothing but its Xing frame.
    """
    frame: mp3.Frame | None = mp3.first_frame(file, size, prefix_bytes=size)
    size = mp3.audio_end(file, size)
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
            raise Malformed(f"mp3 stream ended abnormally: no audio frame after byte {at}")


def _mp3_stretch(source: Splice, geometry: Geometry) -> Iterator[Samples]:
    try:
        with open_sound(source, geometry) as sound:
            for _, block in sound_blocks(sound, 0):
                yield block
    except soundfile.LibsndfileError:
        return  # what follows is searched for the next frame


class _Sequential(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """Does not seek after every read, which is slow and fails on files of unknown length."""

    def seekable(self) -> bool:
        return False


def open_sound(source: Splice, geometry: Geometry) -> _Sequential:
    sound = _Sequential(source)
    if sound.samplerate != geometry.sample_rate:
        rates = f"{geometry.sample_rate} Hz to {sound.samplerate} Hz"
        raise Malformed(f"{geometry.container} stream changes sample rate mid-clip ({rates})")
    return sound


def sound_blocks(sound: _Sequential, skip: int) -> Iterator[Positioned]:
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


def why(error: soundfile.LibsndfileError) -> str:
    return error.error_string.strip().rstrip(".") or f"libsndfile error {error.code}"
