"""Every way the waveform boundary says no; the texts are part of the interface.

Clip indexes in texts are zero-based. Owns words only, no rule.
"""

from __future__ import annotations

from models.base import InputRejected


class WaveformError(InputRejected):
    """The audio of a request is refused, and the request with it."""


class EmptyClip(WaveformError):
    def __init__(self, clip: int) -> None:
        super().__init__(f"audio clip {clip} is empty")


class CorruptClip(WaveformError):
    def __init__(self, clip: int, reason: str) -> None:
        super().__init__(f"audio clip {clip} is corrupt: {reason}")


class NonFiniteSample(WaveformError):
    def __init__(self, clip: int, frame: int) -> None:
        super().__init__(f"audio clip {clip} contains a non-finite sample at frame {frame}")


class LimitExceeded(WaveformError):
    def __init__(self, limit: str, *, actual: int, maximum: int) -> None:
        super().__init__(f"audio {limit} limit exceeded: actual {actual}, maximum {maximum}")


class SizeOverflow(WaveformError):
    def __init__(self, context: str) -> None:
        super().__init__(f"audio size calculation overflowed while computing {context}")


class PlaceholderInvalid(WaveformError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"audio placeholder mapping is invalid: {reason}")


class SourceFailed(WaveformError):
    def __init__(self, clip: int, reason: str) -> None:
        super().__init__(f"audio source context failed for clip {clip}: {reason}")
