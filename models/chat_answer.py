"""What a chat network answers: sampling, its end, and the text as soon as it is certain.

Knows neither audio nor prompts: a question is token ids and whatever arrays go with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from models.backend import mx
from models.base import (
    GivenUp,
    InputRejected,
    NotSupported,
    OnlyHears,
    Samples,
    TranscribeOptions,
)
from models.transcript import Usage, WindowTranscript

MAX_TOKENS = 1_024  # of the answer to one window, where the caller names none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    ids: mx.array
    """Shape (1, positions)."""
    pixel_values: Any = None
    mask: Any = None
    inputs: dict[str, Any] = field(default_factory=dict)
    """By the names that the network's ``get_input_embeddings`` has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    network: Any
    """One of mlx-vlm's."""
    tokenizer: Tokenizer
    stop: frozenset[int]
    """Ids that end an answer."""
    positions: int
    """The longest question and answer together."""

    def answer(self, question: Question, options: TranscribeOptions) -> WindowTranscript:
        tokens: list[int] = []
        said: list[str] = []
        for piece in visible(self.tokenizer, _kept(self.tokens(question, options), tokens)):
            said.append(piece)
            options.on_text(piece)
        return WindowTranscript(
            text="".join(said),
            language=options.language or "",
            usage=Usage(input_tokens=question.ids.size, output_tokens=len(tokens)),
        )

    def tokens(self, question: Question, options: TranscribeOptions) -> Iterator[int]:
        from mlx_vlm.generate import generate_step

        wanted = MAX_TOKENS if options.max_tokens is None else options.max_tokens
        steps = generate_step(
            question.ids,
            self.network,
            question.pixel_values,
            question.mask,
            max_tokens=min(wanted, self.positions - question.ids.size),
            temperature=options.temperature,
            **question.inputs,
        )
        for token, _ in steps:
            if options.cancelled():
                raise GivenUp("the answer was given up")
            if token in self.stop:
                return
            yield int(token)


class Listener(OnlyHears):
    """A chat model as a speech provider, apart from its hearing: it only transcribes."""

    sample_rate: int
    window_seconds: float

    def _check(self, windows: Sequence[Samples], options: TranscribeOptions) -> None:
        if options.task != "transcribe":
            raise NotSupported(f"{self.info.name} does not translate")
        most = round(self.window_seconds * self.sample_rate)
        for window in windows:
            if window.ndim != 1 or len(window) > most:
                shape = window.shape
                raise InputRejected(f"a window has shape {shape}: at most {most} mono samples")


def visible(tokenizer: Tokenizer, tokens: Iterator[int]) -> Iterator[str]:
    """Text as it becomes certain: no empty piece and no half character."""
    stream = DecodeStream(skip_special_tokens=True)
    for token in tokens:
        piece = stream.step(tokenizer, token)
        if piece:
            yield piece


def nothing(options: TranscribeOptions) -> WindowTranscript:
    """Of what is too short to be heard."""
    return WindowTranscript(text="", language=options.language or "")


def _kept(tokens: Iterator[int], kept: list[int]) -> Iterator[int]:
    for token in tokens:
        kept.append(token)
        yield token
