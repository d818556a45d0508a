"""docs/add-a-model.md does what it says: its files, installed as a package, make a served model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.wire import form, part
from tests.harness import PLUGINS, ROOT, Service

FILES = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.findall((ROOT / "docs" / "add-a-model.md").read_text()):
        file = tmp_path / "voxqueue-morse" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "voxqueue-morse"


def install(package: Path, target: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"),
            *("--no-build-isolation", "--python", sys.executable, "--target", str(target)),
            str(package),
        ],
        check=True,
    )


def test_the_example_package_is_served(package: Path, tmp_path: Path) -> None:
    install(package, tmp_path / "site")
    model = str(package / "morse")
    service = Service(
        *(tmp_path / "data", "--stt-model", model, "--tts-model", model),
        PYTHONPATH=f"{tmp_path / 'site'}:{PLUGINS}",
    )
    try:
        (listed,) = service.client.get("/v1/models").json()["data"]
        assert (listed["id"], listed["owned_by"]) == ("morse", "morse")
        body = {"model": "morse", "input": "Hello, I am at home!"}
        speech = service.client.post("/v1/audio/speech", json=body)
        assert speech.status_code == 200, speech.text
        heard = service.client.post(
            "/v1/audio/transcriptions", **form(part("file", speech.content, "a.wav"))
        )
        assert heard.json()["text"] == "hello i am at home"
        silent = service.client.post("/v1/audio/speech", json={"model": "m", "input": "123"})
        assert silent.json()["error"]["message"] == "no phonemes for the input text"
    finally:
        assert service.stop() == 0
