"""Which container a file is, by its first bytes alone."""

from __future__ import annotations

from models.containers.geometry import Container

SNIFF_BYTES = 12


def sniff(head: bytes) -> Container | None:
    if len(head) >= 12 and head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return Container.WAV
    if head[:4] == b"fLaC":
        return Container.FLAC
    if head[:3] == b"ID3" or (len(head) >= 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0):
        return Container.MP3
    return None
