"""Real speech and real weights, where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

import models.backend  # noqa: F401 - before mlx-vlm brings MLX with its slow bundled BLAS
from models.base import ModelError
from models.catalog import checkpoint_path
from tests import places

# The same examples each time on CI, so that a change fails for what it changed; new ones elsewhere.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).parent.parent
WAITS = ["not within", "does not answer", "ReadTimeout", "ConnectTimeout", "TimeoutExpired"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stack",
        choices=["machine", "servers"],
        default="machine",
        help="what services stand on where a test does not say: SQLite, a directory and an "
        "embedded Valkey; or PostgreSQL, SeaweedFS and a Valkey with a password",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of real processes whose wait ran out runs once more, and the report says so.

    Dozens of them are killed and started, on a machine that others may keep busy. What comes out
    wrong fails at once: a second look would hide a job that is lost now and then.
    """
    for item in items:
        if item.path.relative_to(ROOT / "tests").parts[0] != "unit":
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=WAITS))


@pytest.fixture(scope="session", autouse=True)
def _places(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    with ExitStack() as stack:
        if pytestconfig.getoption("stack") == "servers":
            stack.enter_context(places.servers(tmp_path_factory.mktemp("servers")))
        yield


@pytest.fixture(autouse=True)
def _one_machine(request: pytest.FixtureRequest) -> None:
    if places.on_servers() and (mark := request.node.get_closest_marker("one_machine")):
        pytest.skip(f"about one machine: {mark.args[0]}")


@pytest.fixture(scope="session")
def speech_dir() -> Path:
    path = Path(os.environ.get("VOXQUEUE_TEST_AUDIO", ROOT.parent / "shared" / "audio"))
    if not (path / "jfk.wav").exists():
        pytest.skip("no recordings: set VOXQUEUE_TEST_AUDIO to a folder with jfk.wav")
    return path


@pytest.fixture(scope="session")
def real_models() -> None:
    """Skips where the weights have not been pulled."""
    try:
        for name in ("whisper-base", "kokoro-82m"):
            checkpoint_path(name)
    except ModelError as error:
        pytest.skip(str(error))
