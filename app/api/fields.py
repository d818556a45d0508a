"""The rules of single form fields: what they may hold, and the 400 when they do not."""

from __future__ import annotations

import math
import re

from app.errors import BadRequest

_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COUNT = re.compile(r"\+?\d{1,18}")
INPUT_CHARACTERS = 4096  # of a text that are spoken; the rest is cut


def text(value: str | None) -> str | None:
    """Trimmed; empty is absent."""
    return (value or "").strip() or None


def temperature(value: str | None) -> float | None:
    given = text(value)
    if given is None:
        return None
    number = float(given) if _FLOAT.fullmatch(given) else math.nan
    if not math.isfinite(number):
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
    return given.lower() if given else None


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
    trimmed = value.strip()
    if not trimmed:
        raise BadRequest("empty input text for synthesis", param="input")
    return trimmed[:INPUT_CHARACTERS]


def speed(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) and value > 0 else 1.0
