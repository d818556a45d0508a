"""Encoded clips as they come in, and what a decoder offers of one.

Owns the values between acquisition and decoding; knows no container.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from models.containers.packets import Positioned
from models.preprocess.cancellation import Poll
from models.preprocess.errors import CorruptClip, LimitExceeded


class SourceKind(StrEnum):
    CLI_FILE = "cli_file"
    SERVER_INLINE = "server_inline"
    DATA_URI = "data_uri"
    SERVER_FILE = "server_file"
    SERVER_URL = "server_url"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedClip:
    data: bytes
    kind: SourceKind
    placeholder_ordinal: int
    """Counts from one, in the order of the request."""


class SourceBounds(Protocol):
    """What a clip may be before anything is made of it."""

    @property
    def min_source_sample_rate(self) -> int: ...
    @property
    def max_source_sample_rate(self) -> int: ...
    @property
    def max_duration_seconds(self) -> int: ...


class OpenedClip(Protocol):
    """A clip whose header was read and allowed."""

    @property
    def sample_rate(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def frames(self) -> int:
        """As declared, else the most that the bounds permit."""
        ...

    def blocks(self, poll: Poll) -> Iterator[Positioned]:
        """Blocks of shape (frames, channels), and the number that errors give their first frame."""
        ...


def check_rate(rate: int, clip: int, bounds: SourceBounds) -> None:
    least, most = bounds.min_source_sample_rate, bounds.max_source_sample_rate
    if rate < least:
        reason = f"source sample rate {rate} Hz is below the {least} Hz family minimum"
        raise CorruptClip(clip, reason)
    if rate > most:
        raise LimitExceeded("source sample rate", actual=rate, maximum=most)


def check_duration(frames: int, rate: int, bounds: SourceBounds) -> None:
    most = rate * bounds.max_duration_seconds
    if frames > most:
        raise LimitExceeded("source duration samples", actual=frames, maximum=most)
