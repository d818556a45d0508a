from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.jobs.services import Services
from tests.inprocess import close, make_services


@pytest.fixture
def open_services(tmp_path: Path) -> Iterator[Callable[..., Services]]:
    """Services with other settings than the defaults."""
    opened: list[Services] = []

    def build(**changes: Any) -> Services:
        opened.append(make_services(tmp_path / str(len(opened)), **changes))
        return opened[-1]

    yield build
    for services in opened:
        close(services)


@pytest.fixture
def services(open_services: Callable[..., Services]) -> Services:
    return open_services()
