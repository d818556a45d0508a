"""What every speech model offers: the provider Protocol, its options and its errors.

Nothing here reaches MLX, so that anything may import it. A provider is handed windows of audio or
utterances of text, never files, jobs or requests; the caller decides what is done when, and may
stop between any two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from models.transcript import Transcript, WindowTranscript

Samples = NDArray[np.float32]
"""Mono waveform, shape (frames,), values in [-1, 1]."""

Task = Literal["transcribe", "translate"]


class Capability(StrEnum):
    STT = "stt"
    TTS = "tts"


class ModelError(Exception):
    """The model failed."""


class CheckpointError(ModelError):
    """The checkpoint cannot be loaded: the message names the file or the tensors at fault."""


class InputRejected(ModelError):
    """The model has no answer for this input: the request is at fault, not the model."""


class NotSupported(ModelError):
    """The provider does not offer this capability."""


class GivenUp(ModelError):
    """The work was stopped because ``TranscribeOptions.cancelled`` said so."""


def ignore(_piece: str) -> None:
    """Of text that nobody follows."""


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeOptions:
    language: str | None = None
    """Lower-cased hint such as ``en``; None lets the model detect it."""
    one_language: bool = True
    """Whether the windows are of one recording, or each has a language of its own to detect."""
    task: Task = "transcribe"
    timestamps: bool = False
    """Ask the model for segment times instead of one segment a window."""
    prompt: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    on_text: Callable[[str], None] = ignore
    """Given each visible piece, never an empty one, as soon as a model with ``streams`` has it, on
    the model's thread: the pieces are the answer's text. What it raises ends the call."""
    cancelled: Callable[[], bool] = never
    """Asked often while audio is prepared, from any thread; a yes ends the call in GivenUp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A piece of text that one synthesis call can say whole."""

    text: str
    phonemes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What a worker reports of a loaded model."""

    name: str
    family: str
    """``whisper``, ``kokoro``, ..."""
    capabilities: frozenset[Capability]
    multilingual: bool = True
    translates: bool = True
    """Whether a model that hears also takes the task ``translate``."""
    batches: bool = False
    """Whether windows of several recordings take less time in one call than in one each."""
    streams: bool = False
    """Whether it calls ``TranscribeOptions.on_text``."""
    voices: tuple[str, ...] = ()
    revision: str = ""
    """Content hash of the checkpoint: the same revision gives the same answer."""
    details: dict[str, str | int | float] = field(default_factory=dict)


@runtime_checkable
class SpeechProvider(Protocol):
    """A loaded model. Every method runs on the thread that loaded it: MLX streams belong to one."""

    info: ModelInfo
    sample_rate: int
    """Hz: of the windows it takes, or of the speech that it returns."""
    window_seconds: float
    """Longest window that ``transcribe`` takes; 0 for a model that does not transcribe."""

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        """Transcribe windows independently, in one batch.

        The language of one recording is detected on its first window.

        Segment times are seconds from the start of their own window.
        Raises NotSupported, InputRejected or ModelError.
        """
        ...

    def plan_speech(self, text: str) -> list[Utterance]:
        """Split text at sentence, clause, then word boundaries; nothing pronounceable gives []."""
        ...

    def synthesize(
        self, utterances: Sequence[Utterance], *, voice: str | None, speed: float
    ) -> list[Samples]:
        """Say each utterance; an unknown or unsafe voice name means the default voice."""
        ...


class OnlyHears:
    """The half of ``SpeechProvider`` that a model without a voice refuses."""

    info: ModelInfo

    def plan_speech(self, text: str) -> list[Utterance]:  # noqa: ARG002 -- the protocol's
        raise NotSupported(f"{self.info.name} does not speak")

    def synthesize(
        self,
        utterances: Sequence[Utterance],  # noqa: ARG002 -- the protocol's
        *,
        voice: str | None,  # noqa: ARG002 -- the protocol's
        speed: float,  # noqa: ARG002 -- the protocol's
    ) -> list[Samples]:
        raise NotSupported(f"{self.info.name} does not speak")


@runtime_checkable
class RecordingProvider(Protocol):
    """A model with a decoder of its own: it also takes a recording as it came in."""

    def transcribe_recording(self, data: bytes, options: TranscribeOptions) -> Transcript:
        """Transcribe the whole, unless it breaks the model's own bounds.

        Raises NotSupported, InputRejected, GivenUp or ModelError.
        """
        ...


@runtime_checkable
class CountingProvider(Protocol):
    """A model that prepares audio in the bounded stage of models/preprocess."""

    def counts(self) -> dict[str, int]:
        """What the stage has counted so far; from any thread."""
        ...
