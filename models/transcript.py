"""Transcripts as plain values, to and from JSON. The one module of models/ that app/ imports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

SPACELESS = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
"""Languages written without spaces between words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    start: float
    """Seconds."""
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    avg_logprob: float = 0.0
    no_speech_prob: float = 0.0
    compression_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a chat model read and wrote; Whisper reports none."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTranscript:
    """What a model heard in one window; times are seconds from the start of that window."""

    text: str
    """As decoded: the leading space that separates it from the previous window is kept."""
    language: str
    segments: tuple[Segment, ...] = ()
    usage: Usage = Usage()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(
            text=data["text"],
            language=data["language"],
            segments=tuple(_segment(item) for item in data["segments"]),
            usage=Usage(**data.get("usage", {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The whole recording; times are seconds from its start."""

    text: str
    language: str
    duration: float
    """Seconds of audio."""
    task: str = "transcribe"
    model: str = ""
    segments: tuple[Segment, ...] = field(default=())
    usage: Usage = Usage()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        segments = tuple(_segment(item) for item in data["segments"])
        return cls(**{**data, "segments": segments, "usage": Usage(**data.get("usage", {}))})


def _segment(data: dict[str, Any]) -> Segment:
    return Segment(**{**data, "tokens": tuple(data["tokens"])})
