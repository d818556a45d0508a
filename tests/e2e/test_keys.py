"""API keys: who gets in, how often, and what each sees."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests import places
from tests.harness import ROOT, Service, eventually, fake_model


def voxqueue(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "VOXQUEUE_DATABASE_URL": places.database_url(data)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    assert voxqueue(data, "migrate").returncode == 0
    return data


@pytest.fixture(scope="module")
def service(
    data: Path, tokens: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    model = str(fake_model(tmp_path_factory.mktemp("model") / "fake"))
    options = ("--stt-model", model, "--tts-model", model)
    service = Service(data, *options, VOXQUEUE_AUTH="on", VOXQUEUE_REQUESTS_PER_MINUTE="100")
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def tokens(data: Path) -> dict[str, str]:
    names = ("alice", "bob")
    made = {name: voxqueue(data, "keys", "create", name).stdout.strip() for name in names}
    made["carol"] = voxqueue(
        data, "keys", "create", "carol", "--requests-per-minute", "3"
    ).stdout.strip()
    return made


@pytest.fixture(scope="module")
def alice(tokens: dict[str, str], service: Service) -> Iterator[httpx2.Client]:
    with _client(service, tokens["alice"]) as client:
        yield client


@pytest.fixture(scope="module")
def bob(tokens: dict[str, str], service: Service) -> Iterator[httpx2.Client]:
    with _client(service, tokens["bob"]) as client:
        yield client


def _client(service: Service, token: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=service.url, headers=headers, timeout=60)


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer vq_wrong", "Basic dXNlcjpwYXNz"])
def test_nobody_gets_in_without_a_key(service: Service, given: str | None) -> None:
    headers = {"Authorization": given} if given else {}
    for path in ("/v1/jobs", "/v1/models", "/metrics", "/nowhere"):
        answer = service.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_load_balancer_needs_none(service: Service) -> None:
    assert service.client.get("/health").status_code == 200
    eventually(service.ready)


def test_a_key_sees_only_its_jobs(alice: httpx2.Client, bob: httpx2.Client) -> None:
    spoken = {"model": "m", "input": "Mine."}
    accepted = alice.post("/v1/audio/speech", json=spoken, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202, accepted.text
    job = accepted.headers["location"]
    eventually(lambda: alice.get(job).json()["status"] == "succeeded")
    assert alice.get(f"{job}/result").status_code == 200
    assert [item["id"] for item in alice.get("/v1/jobs").json()["data"]] == [job.split("/")[-1]]
    for answer in (
        bob.get(job),
        bob.get(f"{job}/result"),
        bob.get(f"{job}/timing"),
        bob.delete(job),
        bob.get("/v1/jobs", params={"after": job.split("/")[-1]}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert bob.get("/v1/jobs").json()["data"] == []


def test_the_same_idempotency_key_of_two_callers_is_two_jobs(
    alice: httpx2.Client, bob: httpx2.Client
) -> None:
    headers = {"Idempotency-Key": "same", "Prefer": "respond-async"}
    spoken = {"model": "m", "input": "Twice."}
    mine, again, theirs = (
        client.post("/v1/audio/speech", json=spoken, headers=headers).headers["location"]
        for client in (alice, alice, bob)
    )
    assert mine == again != theirs


def test_a_key_s_own_limit(service: Service, tokens: dict[str, str]) -> None:
    with _client(service, tokens["carol"]) as carol:
        statuses = [carol.get("/v1/models").status_code for _ in range(4)]
        last = carol.get("/v1/models")
    assert statuses == [200, 200, 200, 429]
    assert last.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(last.headers["retry-after"]) <= 60


def test_a_revoked_key_is_out_at_once(service: Service, data: Path) -> None:
    made = voxqueue(data, "keys", "create", "dave")
    key = made.stderr.split()[0]
    with _client(service, made.stdout.strip()) as dave:
        assert dave.get("/v1/models").status_code == 200
        assert voxqueue(data, "keys", "revoke", key).returncode == 0
        assert dave.get("/v1/models").status_code == 401
    listed = voxqueue(data, "keys", "list").stdout
    assert [line.split()[-1] for line in listed.splitlines() if "revoked" in line] == ["dave"]
    assert voxqueue(data, "keys", "revoke", key).returncode == 1


def test_tokens_are_nowhere_at_rest(
    service: Service, data: Path, tokens: dict[str, str], alice: httpx2.Client
) -> None:
    assert alice.get("/v1/models").status_code == 200
    for path in data.rglob("*"):
        if path.is_file():
            found = path.read_bytes()
            assert not any(token.encode() in found for token in tokens.values()), path


def test_answers_carry_security_headers(service: Service, alice: httpx2.Client) -> None:
    for answer in (alice.get("/v1/models"), service.client.get("/v1/models")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"


def test_a_public_address_without_keys_is_refused(tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path), "--stt-model", "", "--tts-model", "")
    refused = voxqueue(tmp_path, "serve", "--host", "0.0.0.0", *options)
    assert refused.returncode == 1
    assert "no API key exists" in refused.stderr
    assert "voxqueue keys create" in refused.stderr
