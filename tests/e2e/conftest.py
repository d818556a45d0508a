from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Service, fake_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    service = Service(data, "--stt-model", str(model), "--tts-model", str(model))
    yield service
    assert service.stop() == 0
