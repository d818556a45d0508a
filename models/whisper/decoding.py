"""Turns what the encoder heard into tokens: language, prompt, and a batch of greedy searches.

Rows that end leave the batch. Knows the network's two calls and the rules' one; not samples, and
not what the tokens say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from models.backend import mx
from models.backend.screen import Glance
from models.base import TranscribeOptions
from models.whisper.network import Decoder
from models.whisper.rules import Rule, Suppress, Timestamps, log_sum_exp
from models.whisper.tokenizer import FALLBACK_LANGUAGE, Tokenizer

Floats = NDArray[np.float32]
SEED = 0  # of sampling at a temperature above 0: the same request gives the same answer


@dataclass(slots=True)
class Decoded:
    """One window's tokens, without prompt and end."""

    tokens: list[int] = field(default_factory=list)
    sum_logprob: float = 0.0
    """Of the tokens, and of the end where it was reached."""
    no_speech_prob: float = 0.0

    @property
    def avg_logprob(self) -> float:
        return self.sum_logprob / (len(self.tokens) + 1)


def detect_languages(decoder: Decoder, audio: mx.array, tokenizer: Tokenizer) -> list[str]:
    """The likeliest language of each window."""
    rows = len(audio)
    if not tokenizer.languages:
        return [FALLBACK_LANGUAGE] * rows
    states = decoder(mx.array([[tokenizer.start]] * rows), audio, decoder.new_cache(rows, 1))
    logits = _numpy(decoder.logits(states[:, -1]))[:, list(tokenizer.languages.values())]
    codes = list(tokenizer.languages)
    return [codes[best] for best in logits.argmax(axis=-1)]


def decode(
    decoder: Decoder,
    audio: mx.array,
    tokenizer: Tokenizer,
    *,
    languages: Sequence[str],
    options: TranscribeOptions,
) -> list[Decoded]:
    """Decode each window of the audio by itself, all in one batch."""
    context = decoder.positions.shape[0]
    prompts = [
        prompt_tokens(tokenizer, context, language=language, options=options)
        for language in languages
    ]  # of one length: a language is one token
    limit = min(options.max_tokens or context, context // 2, context - len(prompts[0]))
    search = Search(decoder, audio, rules(tokenizer, options), tokenizer.end, options.temperature)
    search.begin(prompts, tokenizer, limit)
    while search.running and search.count < limit:
        search.step()
    return search.results


def prompt_tokens(
    tokenizer: Tokenizer, context: int, *, language: str, options: TranscribeOptions
) -> list[int]:
    """The end of the user's prompt, if any, and the task."""
    task = tokenizer.prompt(language, options.task, timestamps=options.timestamps)
    if not options.prompt or tokenizer.previous is None:
        return task
    words = tokenizer.encode(f" {options.prompt.strip()}")
    return [tokenizer.previous, *words[-(context // 2 - 1) :], *task]


def rules(tokenizer: Tokenizer, options: TranscribeOptions) -> tuple[Rule, ...]:
    suppress = Suppress(tokenizer, timestamps=options.timestamps)
    return (suppress, Timestamps(tokenizer)) if options.timestamps else (suppress,)


class Search:
    """A greedy search of several rows; ``running`` are those that have not reached their end."""

    def __init__(
        self, decoder: Decoder, audio: mx.array, rules: Sequence[Rule], end: int, temperature: float
    ) -> None:
        self.decoder = decoder
        self.audio = audio
        self.rules = rules
        self.end = end
        self.temperature = temperature
        self.only_best = temperature == 0 and not any(rule.weighs for rule in rules)
        self.results = [Decoded() for _ in range(len(audio))]
        self.running = list(self.results)
        self.count = 0
        self.random = np.random.default_rng(SEED)

    def begin(self, prompts: list[list[int]], tokenizer: Tokenizer, limit: int) -> None:
        """Read the prompts at once; whether a window is silent shows after the start token."""
        length = len(prompts[0])
        self.cache = self.decoder.new_cache(len(prompts), length + limit)
        states = self.decoder(mx.array(prompts), self.audio, self.cache)
        start = prompts[0].index(tokenizer.start)
        logits = _numpy(self.decoder.logits(states[:, [start, length - 1]]))
        if tokenizer.no_speech is not None:
            for result, row in zip(self.results, logits[:, 0], strict=True):
                result.no_speech_prob = float(np.exp(row[tokenizer.no_speech] - log_sum_exp(row)))
        self._choose(np.ascontiguousarray(logits[:, 1]))

    def step(self) -> None:
        last = mx.array([[result.tokens[-1]] for result in self.running])
        states = self.decoder(last, self.audio, self.cache)[:, -1]
        glance = self.decoder.glance(states) if self.only_best else None
        logits = glance.values if glance else _numpy(self.decoder.logits(states))
        self._choose(logits, glance)

    def _choose(self, logits: Floats, glance: Glance | None = None) -> None:
        for rule in self.rules:
            rule(logits, [result.tokens for result in self.running])
        if glance:
            glance.settle()
        chosen = self._pick(logits)
        self.count += 1
        keep = []
        for row, (result, token) in enumerate(zip(self.running, chosen, strict=True)):
            result.sum_logprob += float(logits[row, token]) - log_sum_exp(logits[row])
            if token != self.end:
                result.tokens.append(token)
                keep.append(row)
        self._keep(keep)

    def _pick(self, logits: Floats) -> list[int]:
        if self.temperature > 0:  # argmax over Gumbel noise is a draw from the softmax
            noise = self.random.gumbel(size=logits.shape)
            return [int(i) for i in (logits / self.temperature + noise).argmax(axis=-1)]
        return [int(i) for i in logits.argmax(axis=-1)]

    def _keep(self, rows: list[int]) -> None:
        if len(rows) == len(self.running):
            return
        self.running = [self.running[row] for row in rows]
        if rows:
            kept = mx.array(rows)
            self.audio = self.audio[kept]
            self.cache.keep(kept)


def _numpy(logits: mx.array) -> Floats:
    """The logits' own memory on a CPU, a copy of them from a GPU: rules write to it."""
    logits = logits.astype(mx.float32)
    mx.eval(logits)
    return np.array(logits, copy=None)
