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
from models.preprocess.policy import AudioPolicy


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


class OpenedClip(Protocol):
    """A clip whose header was read and allowed."""

    @property
    def sample_rate(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def frames(self) -> int:
        """As declared, else the most that the policy permits."""
        ...

    def blocks(self, poll: Poll) -> Iterator[Positioned]:
        """Blocks of shape (frames, channels), and the number that errors give their first frame."""
        ...


def check_rate(rate: int, clip: int, policy: AudioPolicy) -> None:
    least, most = policy.min_source_sample_rate, policy.max_source_sample_rate
    if rate < least:
        reason = f"source sample rate {rate} Hz is below the {least} Hz family minimum"
        raise CorruptClip(clip, reason)
    if rate > most:
        raise LimitExceeded("source sample rate", actual=rate, maximum=most)


def check_duration(frames: int, rate: int, policy: AudioPolicy) -> None:
    most = rate * policy.max_duration_seconds
    if frames > most:
        raise LimitExceeded("source duration samples", actual=frames, maximum=most)
