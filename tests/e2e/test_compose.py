"""compose.yaml without a container engine: its own commands, environment and health checks, run
natively on real engines, with the names of its hosts mapped to the loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import yaml

from tests import engines
from tests.engines import S3Server
from tests.harness import PLUGINS, ROOT, eventually, fake_model

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("api", "worker-cpu", "flower", "migrate")
LASTING = [name for name, item in SERVICES.items() if item["restart"] == "unless-stopped"]


def filled_in(text: str) -> str:
    """Compose's ``${NAME:-default}`` with the default, and ``$$`` for a dollar."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(text)).replace("$$", "$")


@dataclass
class Stack:
    hosts: dict[str, str]
    """What the compose file says, and what it is here."""
    changes: dict[str, str]
    """Variables that a test must set otherwise: addresses, ports, models."""
    logs: Path

    def env(self, service: str) -> dict[str, str]:
        given = SERVICES[service].get("environment", {})
        found = {name: filled_in(value) for name, value in given.items()}
        for there, here in self.hosts.items():
            found = {name: value.replace(there, here) for name, value in found.items()}
        known = {name: value for name, value in self.changes.items() if name in found}
        return {**os.environ, "PYTHONPATH": f"{PLUGINS}:{ROOT}", **found, **known}

    def command(self, service: str) -> list[str]:
        return [sys.executable, "-m", "app.cli", *SERVICES[service]["command"]]

    def healthy(self, service: str) -> bool:
        _, program, *arguments = SERVICES[service]["healthcheck"]["test"]
        assert program == "python"
        command = [sys.executable, *arguments]
        ended = subprocess.run(
            command, cwd=ROOT, env=self.env(service), capture_output=True, check=False
        )
        return ended.returncode == 0

    def run(self, service: str) -> None:
        subprocess.run(self.command(service), cwd=ROOT, env=self.env(service), check=True)

    def start(self, service: str, stack: ExitStack) -> None:
        process = engines.process(
            self.command(service),
            self.logs / f"{service}.log",
            lambda: self.healthy(service),
            env=self.env(service),
        )
        stack.enter_context(process)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    model = str(fake_model(tmp_path_factory.mktemp("model") / "fake"))
    (credentials,) = json.loads(filled_in(COMPOSE["configs"]["s3"]["content"]))["identities"][0][
        "credentials"
    ]
    with ExitStack() as started:
        postgres = started.enter_context(engines.postgres())
        user = SERVICES["postgres"]["environment"]
        admin = postgres.url.replace("postgresql+psycopg", "postgresql")
        with psycopg.connect(admin, autocommit=True) as connection:
            password = filled_in(user["POSTGRES_PASSWORD"])
            role = f"CREATE ROLE {user['POSTGRES_USER']} LOGIN PASSWORD '{password}'"
            connection.execute(role.encode())
            made = f"CREATE DATABASE {user['POSTGRES_DB']} OWNER {user['POSTGRES_USER']}"
            connection.execute(made.encode())
        password = filled_in(SERVICES["valkey"]["environment"]["VALKEY_PASSWORD"])
        directory = tmp_path_factory.mktemp("valkey")
        valkey = started.enter_context(engines.valkey(directory, password=password))
        weed: S3Server = started.enter_context(
            engines.seaweedfs(
                tmp_path_factory.mktemp("weed"),
                bucket="voxqueue",
                keys=(credentials["accessKey"], credentials["secretKey"]),
            )
        )
        hosts = {
            "@postgres:5432/voxqueue": f"@/voxqueue?{postgres.url.partition('?')[2]}",
            "valkey:6379": valkey.rpartition("@")[2].partition("/")[0],
            "http://seaweedfs:8333": weed.endpoint,
        }
        changes = {
            "VOXQUEUE_HOST": "127.0.0.1",
            "VOXQUEUE_PORT": str(engines.free_port()),
            "FLOWER_ADDRESS": "127.0.0.1",
            "FLOWER_PORT": str(engines.free_port()),
            "VOXQUEUE_STT_MODEL": model,
            "VOXQUEUE_TTS_MODEL": model,
        }
        made_here = Stack(hosts=hosts, changes=changes, logs=tmp_path_factory.mktemp("logs"))
        made_here.run("migrate")
        for service in ("worker-cpu", "api", "flower"):
            made_here.start(service, started)
        yield made_here


def test_the_services_work_together(stack: Stack) -> None:
    port = stack.changes["VOXQUEUE_PORT"]
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        eventually(lambda: client.get("/ready").status_code == 200)
        speech = client.post("/v1/audio/speech", json={"model": "m", "input": "Hello."})
        assert speech.status_code == 200, speech.text
        files = {"file": ("a.wav", speech.content)}
        heard = client.post("/v1/audio/transcriptions", files=files)
        assert heard.status_code == 200, heard.text


def test_flower_is_behind_its_password(stack: Stack) -> None:
    url = f"http://127.0.0.1:{stack.changes['FLOWER_PORT']}/workers"
    assert httpx2.get(url).status_code == 401
    user, _, password = filled_in(SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"]).partition(
        ":"
    )
    assert httpx2.get(url, auth=(user, password)).status_code == 200


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_service_has_a_health_check(name: str) -> None:
    assert "test" in SERVICES[name]["healthcheck"]


def test_what_a_service_waits_for_is_there_and_can_be_waited_for() -> None:
    for name, item in SERVICES.items():
        for other, how in item.get("depends_on", {}).items():
            once = how["condition"] == "service_completed_successfully"
            assert once == (SERVICES[other]["restart"] == "on-failure"), (name, other)
            assert once or "healthcheck" in SERVICES[other], (name, other)


def test_volumes_and_configs_are_declared() -> None:
    for item in SERVICES.values():
        for volume in item.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        for config in item.get("configs", []):
            assert config["source"] in COMPOSE["configs"]


def test_ports_are_published_on_the_loopback_only() -> None:
    ports = [port for item in SERVICES.values() for port in item.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_one_image_that_is_not_root(name: str) -> None:
    assert SERVICES[name]["image"] == "voxqueue"
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM"))
    assert "USER 10001" in lines[last:]


def test_the_image_has_all_that_it_copies() -> None:
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source


def test_the_blob_server_starts_with_the_file_s_own_options() -> None:
    known = subprocess.run(
        [str(Path(sys.executable).parent / "weed"), "help", "server"],
        capture_output=True,
        text=True,
        check=False,
    )
    text = known.stdout + known.stderr
    for option in SERVICES["seaweedfs"]["command"][1:]:
        name = option.partition("=")[0]
        assert f"  {name}" in text, name
    assert "-master.telemetry=false" in SERVICES["seaweedfs"]["command"]
