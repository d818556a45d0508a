"""The shapes of JSON requests. Types are strict: a number is not a string."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SpeechRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    model: str
    """Carried and ignored."""
    input: str
    voice: str | None = None
    response_format: str | None = None
    speed: float | None = None
