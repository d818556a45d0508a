from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from app.archive.finding import find
from app.archive.folders import Rules
from app.archive.items import Item


@pytest.fixture(scope="session")
def wav() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(8_000, np.float32), 16_000, format="WAV")
    return file.getvalue()


@pytest.fixture
def found() -> Callable[..., list[Item]]:
    def build(*paths: Path | str, max_bytes: int = 1 << 20, **rules: object) -> list[Item]:
        return list(find([str(path) for path in paths], Rules(**rules), max_bytes=max_bytes))

    return build


@pytest.fixture
def told() -> Callable[[list[Item]], dict[str, str]]:
    """By the last part of each item's id: where it goes, or why it does not."""

    def build(items: list[Item]) -> dict[str, str]:
        return {
            item.id.replace("!", "/").rpartition("/")[2]: item.problem.reason
            if item.problem
            else str(item.name)
            for item in items
        }

    return build
