"""Which container an upload is, by its first bytes alone, and what its header declares.

Pure header reading, before any decoder runs; a filename, a Content-Type or a client's `format`
never decide. Another dialect's containers come in as further members of `Container`.
"""

from __future__ import annotations

from typing import BinaryIO

from app.audio import flac, mp3, wav
from app.audio.geometry import Container, Geometry, Malformed
from app.errors import BadAudio

SNIFF_BYTES = 12


def sniff(head: bytes) -> Container | None:
    if len(head) >= 12 and head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return Container.WAV
    if head[:4] == b"fLaC":
        return Container.FLAC
    if head[:3] == b"ID3" or (len(head) >= 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0):
        return Container.MP3
    return None


def probe(file: BinaryIO, size: int, *, mp3_prefix_bytes: int = mp3.PREFIX_BYTES) -> Geometry:
    """Read the header of a seekable file; BadAudio says what is wrong with it."""
    file.seek(0)
    container = sniff(file.read(SNIFF_BYTES))
    try:
        if container is Container.MP3:
            return mp3.probe(file, size, prefix_bytes=mp3_prefix_bytes)
        if container is Container.FLAC:
            return flac.probe(file, size)
        return wav.probe(file, size)  # also the answer for what nothing recognises
    except Malformed as error:
        raise unreadable(str(error)) from error


def unreadable(reason: str) -> BadAudio:
    return BadAudio(f"failed to read the uploaded audio: {reason}")
