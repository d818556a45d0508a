"""From a window's tokens to its transcript: text, segments with times, and the guards on both.

Silence: a window that the model takes for silent and is unsure about has no text, as in OpenAI's
transcriber. Loops: a text that compresses more than 2.4 times repeats itself; its repeated tail is
cut to one occurrence (OpenAI samples anew at higher temperatures instead, at up to six times the
cost, and with another answer every time).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from models.transcript import Segment, WindowTranscript
from models.whisper.decoding import Decoded
from models.whisper.rules import TIMESTAMP_SECONDS
from models.whisper.tokenizer import Tokenizer

NO_SPEECH = 0.6  # probability above which, with
UNSURE = -1.0  # an average log probability below this, a window is silent
REPETITIVE = 2.4  # compression ratio
MIN_REPEATS = 3  # occurrences that make a loop
Span = tuple[float, float, list[int]]


def transcript(
    decoded: Decoded, tokenizer: Tokenizer, *, language: str, seconds: float
) -> WindowTranscript:
    """What was said in a window of that many seconds."""
    if decoded.no_speech_prob > NO_SPEECH and decoded.avg_logprob < UNSURE:
        return WindowTranscript(text="", language=language)
    tokens = without_loop(decoded.tokens, tokenizer)
    text = tokenizer.decode(tokens)
    found = (
        Segment(
            start=start,
            end=end,
            text=tokenizer.decode(part),
            tokens=tuple(part),
            avg_logprob=decoded.avg_logprob,
            no_speech_prob=decoded.no_speech_prob,
            compression_ratio=compression_ratio(text),
        )
        for start, end, part in spans(tokens, tokenizer.first_timestamp, seconds)
    )
    segments = tuple(segment for segment in found if segment.text.strip())
    return WindowTranscript(text=text, language=language, segments=segments)


def spans(tokens: Sequence[int], zero: int, seconds: float) -> Iterator[Span]:
    """Runs of text with the timestamps around them, or with the window's ends where one lacks."""
    start, text = 0.0, list[int]()
    for token in tokens:
        if token < zero:
            text.append(token)
            continue
        time = min(seconds, (token - zero) * TIMESTAMP_SECONDS)
        if text:
            yield start, max(start, time), text
            text = []
        start = time
    if text:
        yield start, seconds, text


def without_loop(tokens: list[int], tokenizer: Tokenizer) -> list[int]:
    """The tokens, their repeated tail cut to one occurrence if there is one worth the name."""
    if compression_ratio(tokenizer.decode(tokens)) <= REPETITIVE:
        return tokens
    words = [i for i, token in enumerate(tokens) if token < tokenizer.first_timestamp]
    said = [tokens[i] for i in words]
    for period in range(1, len(said) // MIN_REPEATS + 1):
        repeated = _repeated(said, period)
        if repeated >= (MIN_REPEATS - 1) * period:
            return tokens[: words[len(said) - repeated]]
    return tokens


def compression_ratio(text: str) -> float:
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def _repeated(tokens: Sequence[int], period: int) -> int:
    """How many tokens at the end equal those a period before them."""
    pairs = zip(reversed(tokens), reversed(tokens[:-period]), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(tokens) - period)
