"""What a container's header says of the audio inside, and the error for a header that says nothing.

Owns the values that the header readers (wav, flac, mp3) share; knows no container and no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Container(StrEnum):
    WAV = "wav"
    MP3 = "mp3"
    FLAC = "flac"


class Malformed(Exception):
    """The bytes break the rules of their container; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    container: Container
    sample_rate: int
    """Hz."""
    channels: int
    frames: int | None
    """Declared sample frames; None where the header does not say."""
    bit_depth: int | None = None

    @property
    def duration_seconds(self) -> float | None:
        return None if self.frames is None else self.frames / self.sample_rate
