"""Which tokens may come next: suppression, and OpenAI's rules for timestamps. NumPy on logits.

Each rule changes the logits of all running rows in place; it sees the tokens generated so far and
nothing of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.whisper.tokenizer import Tokenizer

Floats = NDArray[np.float32]
NEVER = -np.inf
TIMESTAMP_SECONDS = 0.02  # between one timestamp token and the next
MAX_INITIAL_SECONDS = 1.0  # of the first timestamp in a window
MAX_INITIAL = round(MAX_INITIAL_SECONDS / TIMESTAMP_SECONDS)


class Rule(Protocol):
    @property
    def weighs(self) -> bool:
        """Whether it goes by the logits themselves, and not by the tokens alone."""

    def __call__(self, logits: Floats, generated: Sequence[Sequence[int]]) -> None: ...


class Suppress:
    weighs = False

    def __init__(self, tokenizer: Tokenizer, *, timestamps: bool) -> None:
        never = [*tokenizer.suppressed, tokenizer.no_timestamps]
        self.always = np.array(sorted({i for i in never if i < tokenizer.size}))
        self.first = np.array(tokenizer.suppressed_first)
        self.last = tokenizer.size if timestamps else tokenizer.first_timestamp

    def __call__(self, logits: Floats, generated: Sequence[Sequence[int]]) -> None:
        logits[:, self.always] = NEVER
        logits[:, self.last :] = NEVER
        if not generated[0]:
            logits[:, self.first] = NEVER


class Timestamps:
    """They come in pairs around text, never go back, start the window, and win by their sum."""

    weighs = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.zero = tokenizer.first_timestamp
        self.end = tokenizer.end

    def __call__(self, logits: Floats, generated: Sequence[Sequence[int]]) -> None:
        for row, tokens in zip(logits, generated, strict=True):
            self._pair(row, tokens)
            self._forward(row, tokens)
            if not tokens:
                row[: self.zero] = NEVER
                row[self.zero + MAX_INITIAL + 1 :] = NEVER
            self._by_mass(row)

    def _pair(self, row: Floats, tokens: Sequence[int]) -> None:
        if not self._opens_or_closes(tokens):
            return
        if self._closed(tokens):
            row[self.zero :] = NEVER  # a pair is complete: text, or the end
        else:
            row[: self.end] = NEVER  # text has ended: the next segment's start, or the end

    def _forward(self, row: Floats, tokens: Sequence[int]) -> None:
        last = max((token for token in tokens if token >= self.zero), default=None)
        if last is not None:
            same = self._opens_or_closes(tokens) and not self._closed(tokens)
            row[self.zero : last if same else last + 1] = NEVER

    def _opens_or_closes(self, tokens: Sequence[int]) -> bool:
        return bool(tokens) and tokens[-1] >= self.zero

    def _closed(self, tokens: Sequence[int]) -> bool:
        """Given a timestamp last: whether another, or the window's beginning, precedes it."""
        return len(tokens) < 2 or tokens[-2] >= self.zero

    def _by_mass(self, row: Floats) -> None:
        if log_sum_exp(row[self.zero :]) > row[: self.zero].max():
            row[: self.zero] = NEVER


def log_sum_exp(x: Floats) -> float:
    peak = x.max()
    if peak == NEVER:
        return NEVER
    return float(peak + np.log(np.exp(x - peak).sum()))
