"""What the header of an upload declares, and the answer for one that cannot be read.

Pure header reading, before any decoder runs; a filename, a Content-Type or a client's `format`
never decide. Another dialect's containers come in as further members of `Container`.
"""

from __future__ import annotations

from typing import BinaryIO

from app.audio import wav
from app.errors import BadAudio
from models.containers import flac, mp3
from models.containers.geometry import Container, Geometry, Malformed
from models.containers.sniff import SNIFF_BYTES, sniff


def probe(file: BinaryIO, size: int, *, mp3_prefix_bytes: int = mp3.PREFIX_BYTES) -> Geometry:
    """Read the header of a seekable file; BadAudio says what is wrong with it."""
    file.seek(0)
    container = sniff(file.read(SNIFF_BYTES))
    try:
        if container is Container.MP3:
            return mp3.probe(file, size, prefix_bytes=mp3_prefix_bytes)
        if container is Container.FLAC:
            return flac.probe(file, size)
    except Malformed as error:
        raise corrupt(str(error)) from error
    try:
        return wav.probe(file, size)  # also the answer for what nothing recognises
    except Malformed as error:
        raise unreadable(str(error)) from error


def corrupt(reason: str) -> BadAudio:
    return unreadable(f"audio clip 0 is corrupt: {reason}")


def unreadable(reason: str) -> BadAudio:
    return BadAudio(f"failed to read the uploaded audio: {reason}")
