"""Downloads that a store on S3 serves itself: a stock client follows, and keeps its key."""

from __future__ import annotations

import io
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2
import openai
import pytest

from app import access
from app.archive.server import Server
from app.db.engine import Database
from app.db.migration import migrate
from tests import engines, places
from tests.harness import Service

SPEECH = {"model": "m", "input": "Hello."}


@pytest.fixture(scope="module", params=["moto", "seaweedfs"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "moto":
            server = stack.enter_context(engines.moto())
        else:
            server = stack.enter_context(engines.seaweedfs(tmp_path_factory.mktemp("weed")))
        stack.enter_context(engines.environment(server.env))
        yield server.url()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def token(data: Path, place: str) -> str:
    database = Database(places.database_url(data))
    migrate(database)
    _, token = access.create(database, "alice", requests_per_minute=None)
    database.close()
    return token


@pytest.fixture(scope="module")
def service(data: Path, place: str, token: str, model: Path) -> Iterator[Service]:
    service = Service(
        data,
        *("--stt-model", str(model), "--tts-model", str(model)),
        VOXQUEUE_STORAGE_URL=place,
        VOXQUEUE_PRESIGNED_SECONDS="60",
        VOXQUEUE_AUTH="on",
    )
    service.client.headers["Authorization"] = f"Bearer {token}"
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def sdk(service: Service, token: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key=token, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def result(service: Service) -> str:
    """The address of a finished job's speech."""
    prefer = {"Prefer": "respond-async, wait=60"}
    answer = service.client.post("/v1/audio/speech", json=SPEECH, headers=prefer)
    assert answer.status_code == 200, answer.text
    (job,) = service.client.get("/v1/jobs").json()["data"]
    return f"/v1/jobs/{job['id']}/result"


def test_a_result_is_fetched_from_the_store(service: Service, result: str, place: str) -> None:
    answer = service.client.get(result)
    assert answer.status_code == 307
    assert answer.headers["cache-control"] == "no-store"
    address = answer.headers["location"]
    assert urlsplit(address).netloc in unquote(place)
    spoken = httpx2.get(address)
    assert spoken.status_code == 200, spoken.text
    assert spoken.content[:4] == b"RIFF"
    assert spoken.headers["content-type"] == "audio/wav"
    assert spoken.headers["content-disposition"] == "attachment; filename=speech.wav"


def test_a_client_that_follows_leaves_its_key_behind(service: Service, result: str) -> None:
    part = service.client.get(result, headers={"Range": "bytes=0-3"}, follow_redirects=True)
    assert (part.status_code, part.content) == (206, b"RIFF")
    assert "authorization" not in part.request.headers


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_so_does_curl(service: Service, result: str, token: str) -> None:
    command = ["curl", "-sSL", "--fail", "-H", f"Authorization: Bearer {token}"]
    ended = subprocess.run(
        [*command, service.url + result], capture_output=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout[:4] == b"RIFF"


def test_what_needs_no_body_is_answered_here(service: Service, result: str) -> None:
    head = service.client.head(result)
    assert head.status_code == 200
    assert int(head.headers["content-length"]) > 44
    again = {"If-None-Match": head.headers["etag"]}
    assert service.client.get(result, headers=again).status_code == 304


def test_openai_s_client_reads_a_file(sdk: openai.OpenAI) -> None:
    file = sdk.files.create(file=("lines.jsonl", b"{}\n"), purpose="batch")
    assert sdk.files.content(file.id).read() == b"{}\n"


def test_the_archive_s_client_downloads(service: Service, result: str, token: str) -> None:
    server = Server(service.url, api_key=token, stop=threading.Event())
    file = io.BytesIO()
    server.download(result.split("/")[3], file)
    server.close()
    assert file.getvalue()[:4] == b"RIFF"


def test_who_may_not_see_a_job_is_told_no_address(service: Service, result: str) -> None:
    answer = httpx2.get(service.url + result)
    assert answer.status_code == 401
    assert "location" not in answer.headers
