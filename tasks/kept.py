"""What has been finished of a job before, as far as this worker's model would do the same."""

from __future__ import annotations

from app.db import windows
from app.db.records import WindowRow
from models.base import SpeechProvider
from tasks.attempt import Attempt

MODEL_CHARACTERS = 300  # of a model's name and revision


def kept_rows(attempt: Attempt, provider: SpeechProvider) -> dict[int, WindowRow]:
    """By number; a first attempt need not look."""
    return dict(attempt.heard) if attempt.number == 1 else stored_rows(attempt, provider)


def stored_rows(attempt: Attempt, provider: SpeechProvider) -> dict[int, WindowRow]:
    """By number, whoever finished them."""
    with attempt.services.database.reading() as connection:
        rows = windows.get(connection, attempt.job.id)
    return {row.number: row for row in rows if row.model == identity(provider)}


def identity(provider: SpeechProvider) -> str:
    """Of the model: another one's work is no use."""
    return f"{provider.info.name}@{provider.info.revision}"[:MODEL_CHARACTERS]
