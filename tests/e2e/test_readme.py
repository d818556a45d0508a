"""Every command that the README and the pages show, as it stands there, on the real thing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ROOT, Service

pytestmark = pytest.mark.weights
PAGES = ("README.md", "docs/openai-client.md", "docs/jobs.md", "docs/archive.md")
ADDRESS = "http://127.0.0.1:8000"


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """The curl lines, in order; a line that ends in a backslash goes on."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ")]


@pytest.fixture(scope="module")
def real_service(real_models: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("data"))
    yield service
    assert service.stop() == 0


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_lines(page: str, real_service: Service, tmp_path: Path) -> None:
    for command in commands(page):
        line = command.replace(ADDRESS, real_service.url).replace("curl -s", "curl -sS --fail", 1)
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_answer_that_the_readme_shows(real_service: Service, tmp_path: Path) -> None:
    for command in commands("README.md"):
        line = command.replace(ADDRESS, real_service.url)
        run = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert json.loads(run.stdout) == json.loads(blocks("README.md", "json")[0])


@pytest.mark.parametrize("page", PAGES)
def test_python_examples(page: str, real_service: Service, tmp_path: Path) -> None:
    spoken = {"model": "kokoro-82m", "input": "A recording to begin with."}
    answer = real_service.client.post("/v1/audio/speech", json=spoken)
    (tmp_path / "speech.wav").write_bytes(answer.content)
    for number, code in enumerate(blocks(page, "python")):
        script = tmp_path / f"{number}.py"
        script.write_text(code.replace(ADDRESS, real_service.url), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, script.name],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr


def test_make_commands_exist() -> None:
    shown = set(
        re.findall(r"^make (\w+)", "\n".join(blocks("README.md", "sh")), flags=re.MULTILINE)
    )
    shown |= set(re.findall(r"`make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert shown
    for target in shown:
        assert re.search(rf"^{target}:.*##", makefile, flags=re.MULTILINE), (
            f"make {target} is not there"
        )
