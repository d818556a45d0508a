"""The rules of single form fields: what they may hold, and the 400 when they do not."""

from __future__ import annotations

import math
import re

from app.errors import BadRequest

_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COUNT = re.compile(r"\+?0*[0-9]{1,18}")
_VOICE = re.compile(r"[A-Za-z0-9_-]+")
_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON can escape them, no text can hold them
MAX_FLOAT = 3.4028235677973366e38  # from here on a 32-bit float is infinite
INPUT_CHARACTERS = 4096  # of a text that are spoken; the rest is cut
PROMPT_CHARACTERS = 65_536  # far beyond what a model reads; the rest is cut
NAME_CHARACTERS = 64  # the longest that a language or a voice may be called
SLOWEST, FASTEST = 0.25, 4.0  # OpenAI's range; beyond it speech is no longer understood


def text(value: str | None) -> str | None:
    """Trimmed; empty is absent."""
    return (value or "").strip() or None


def prompt(value: str | None) -> str | None:
    given = text(value)
    return given and given[:PROMPT_CHARACTERS]


def temperature(value: str | None) -> float | None:
    given = text(value)
    if given is None:
        return None
    number = float(given) if _FLOAT.fullmatch(given) else math.nan
    if not abs(number) < MAX_FLOAT:  # nor is NaN
        raise BadRequest(f"invalid 'temperature' value: {value}", param="temperature")
    return number


def max_tokens(value: str | None) -> int | None:
    given = text(value)
    if given is None:
        return None
    if not _COUNT.fullmatch(given):
        raise BadRequest(f"invalid 'max_tokens' value: {value}", param="max_tokens")
    return int(given)


def language(value: str | None) -> str | None:
    given = text(value)
    return given and given.lower()[:NAME_CHARACTERS]


def transcription_format(value: str | None) -> str:
    if value not in (None, "json"):
        raise BadRequest(
            "Only 'json' response_format is supported for transcription", param="response_format"
        )
    return "json"


def translation_format(value: str | None) -> str:
    given = (value or "").strip().lower() or "json"
    if given not in ("json", "text", "verbose_json"):
        raise BadRequest(
            f"response_format '{value}' is not supported; "
            "supported formats are: json, text, verbose_json",
            param="response_format",
        )
    return given


def speech_format(value: str | None) -> str:
    given = (value or "").strip().lower() or "wav"
    if given != "wav":
        raise BadRequest(
            f"response_format '{value}' is not supported; only 'wav' is available",
            param="response_format",
        )
    return given


def spoken(value: str) -> str:
    return _trimmed(value)[:INPUT_CHARACTERS]


def whole_text(value: str, *, max_characters: int) -> str:
    """A text of which nothing may be dropped."""
    text = _trimmed(value)
    if len(text) > max_characters:
        raise BadRequest(
            f"input is {len(text)} characters long, maximum is {max_characters}", param="input"
        )
    return text


def _trimmed(value: str) -> str:
    trimmed = _SURROGATES.sub("\ufffd", value).strip()
    if not trimmed:
        raise BadRequest("empty input text for synthesis", param="input")
    return trimmed


def voice(value: str | None) -> str | None:
    """A safe name; anything else is absent, which means the default voice."""
    given = text(value)
    return given if given and len(given) <= NAME_CHARACTERS and _VOICE.fullmatch(given) else None


def speed(value: float | None) -> float:
    """Non-positive or non-finite is 1.0; the rest is held to what can be understood."""
    if value is None or not math.isfinite(value) or value <= 0:
        return 1.0
    return min(max(value, SLOWEST), FASTEST)
