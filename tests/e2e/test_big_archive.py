"""Hundreds of recordings with broken ones among them, from each kind of source, hurt on the way.

All four archives are done at once by one service, whose front door and worker die; then the
commands are killed, and the next ones interrupted, before the last ones finish the work.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.storage.s3 import S3Location, S3Store
from tests import engines
from tests.archives import build, heard, is_broken, report, start, texts
from tests.engines import S3Server
from tests.harness import Service, calls, eventually, fake_model

CLIPS, BROKEN = 510, 10
KINDS = ("folder", "zip", "s3", "manifest")

Files = dict[str, bytes]


@dataclass(frozen=True)
class Archive:
    files: Files
    path: str
    ids: dict[str, str]
    """Of each file, as the report calls it."""
    out: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, service: Service) -> subprocess.Popen[str]:
        return start(service, "transcribe", self.path, "--out", self.out, **self.env)

    def done(self) -> int:
        return sum(1 for _ in self.out.rglob("*.txt"))


def folder(root: Path, files: Files) -> Archive:
    ids = {name: str(root / "in" / name) for name in files}
    return Archive(files, str(root / "in"), ids, root / "out")


def zipped(root: Path, files: Files) -> Archive:
    path = root / "talks.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return Archive(files, str(path), {name: f"{path}!{name}" for name in files}, root / "out")


def manifest(root: Path, files: Files) -> Archive:
    path, ids = root / "talks.jsonl", {name: f"talk/{name}" for name in files}
    lines = [
        {"id": ids[name], "source": f"in/{name}", "options": {"language": "en"}} for name in files
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Archive(files, str(path), ids, root / "out")


def objects(root: Path, files: Files, bucket: S3Server) -> Archive:
    url = bucket.url()
    location = S3Location.parse(url)
    with engines.environment(bucket.env):
        store = S3Store(location)
    for name, data in files.items():
        store.put(name, io.BytesIO(data), content_type="audio/wav")
    where = f"s3://{location.bucket}/{location.prefix}"
    return Archive(files, url, {name: where + name for name in files}, root / "out", bucket.env)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with engines.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory, bucket: S3Server) -> dict[str, Archive]:
    """No clip is in two of them."""
    roots = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    files = {
        kind: build(roots[kind] / "in", clips=CLIPS, seed=10_000 * number)
        for number, kind in enumerate(KINDS)
    }
    return {
        "folder": folder(roots["folder"], files["folder"]),
        "zip": zipped(roots["zip"], files["zip"]),
        "s3": objects(roots["s3"], files["s3"], bucket),
        "manifest": manifest(roots["manifest"], files["manifest"]),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    models = ("--stt-model", str(model), "--tts-model", "")
    service = Service(data, *models, VOXQUEUE_SWEEP_SECONDS="0.3")
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def summaries(service: Service, archives: dict[str, Archive]) -> dict[str, str]:
    """The last words of each command once all four archives are done."""

    def begin() -> list[subprocess.Popen[str]]:
        return [archive.start(service) for archive in archives.values()]

    def far(part: float) -> None:
        every = archives.values()
        eventually(lambda: all(a.done() >= part * CLIPS for a in every), seconds=120)

    commands = begin()
    far(0.1)
    service.kill("api")
    far(0.2)
    service.kill("worker")
    far(0.4)
    for command in commands:
        command.kill()
        command.communicate()

    commands = begin()
    far(0.6)
    for command in commands:
        command.send_signal(signal.SIGINT)
    for command in commands:
        _, told = command.communicate()
        assert command.returncode == 130, told
        assert "the same command goes on from here" in told

    words = {kind: command.communicate()[1] for kind, command in zip(KINDS, begin(), strict=True)}
    return {kind: told.splitlines()[-2] for kind, told in words.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_item_is_accounted_for_exactly_once(
    kind: str, archives: dict[str, Archive], summaries: dict[str, str], model: Path
) -> None:
    archive, summary = archives[kind], summaries[kind]
    assert summary.startswith(f"{CLIPS + BROKEN} items: "), summary
    finished = [int(count) for count in re.findall(r"(\d+) (?:done|reused)", summary)]
    assert (sum(finished), f"{BROKEN} failed" in summary) == (CLIPS, True), summary
    found = report(archive.out)
    assert set(found) == set(archive.ids.values())
    outputs = [
        check(name, data, found[archive.ids[name]], model) for name, data in archive.files.items()
    ]
    assert len(set(outputs) - {None}) == len(texts(archive.out)) == CLIPS
    assert not list(archive.out.rglob("*.part"))


def check(name: str, data: bytes, entry: dict[str, Any], model: Path) -> str | None:
    """The output of a whole clip."""
    if is_broken(name):
        assert (entry["status"], entry["outputs"]) == ("failed", []), entry
        assert entry["error"], entry
        return None
    assert entry["status"] in ("done", "reused"), entry
    assert (entry["words"], entry["model"], entry["error"]) == (1, model.name, None), entry
    assert entry["seconds"] > 0.2, entry
    (path,) = entry["outputs"]
    assert Path(path).read_text() == heard(data)
    return str(path)


def test_nothing_is_heard_twice_but_what_a_dying_worker_had_in_hand(
    summaries: dict[str, str], model: Path
) -> None:
    assert len(KINDS) * CLIPS <= len(calls(model)) <= len(KINDS) * CLIPS + 1
    assert len(set(calls(model))) == len(KINDS) * CLIPS


def test_once_more_is_nothing_to_do(
    service: Service, archives: dict[str, Archive], summaries: dict[str, str], model: Path
) -> None:
    before = len(calls(model))
    _, told = archives["folder"].start(service).communicate()
    assert f"{CLIPS} of them before" in told
    assert len(calls(model)) == before
