"""``voxqueue doctor``: look at everything the service stands on, and say what to do.

Each check ends in a sentence or raises Wrong with what to do. MLX is asked in a process of its own,
since nothing in app/ may load it.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import redis
from sqlalchemy.exc import DBAPIError

from app import access
from app.broker import Announcer
from app.db.engine import Database
from app.db.schema import SchemaError, require_current
from app.jobs.workers import configured
from app.settings import Settings
from app.states import Capability
from app.storage import StorageError, open_store
from models.base import ModelError
from models.catalog import catalogue, checkpoint_path, entry
from models.verify import differences

OLDEST_PYTHON = (3, 11)
SLOW_GFLOPS = 16.0  # one core: reference loops do 4, any vectorised BLAS over 40
FREE_BYTES = 2 << 30  # of disk for recordings, speech and the broker's file
BACKEND_SECONDS = 120  # for loading MLX and multiplying a few matrices
MEASURE = """
import dataclasses, json
from models.backend import backend, gflops
print(json.dumps({**dataclasses.asdict(backend()), "gflops": gflops()}))
"""


class Wrong(Exception):
    """What is wrong and what to do about it."""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    fine: bool
    text: str


def examine(settings: Settings) -> Iterator[Finding]:
    for name, check in CHECKS.items():
        try:
            yield Finding(name, fine=True, text=check(settings))
        except (Wrong, SchemaError, StorageError, ValueError, OSError, ModelError) as reason:
            yield Finding(name, fine=False, text=str(reason))


def _python(_settings: Settings) -> str:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < OLDEST_PYTHON:
        raise Wrong(f"{version} is too old: use 3.11 or newer")
    return version


def _backend(_settings: Settings) -> str:
    command = [sys.executable, "-c", MEASURE]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=BACKEND_SECONDS
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise Wrong(f"MLX does not load ({last}): run `make install` again") from error
    except subprocess.TimeoutExpired as error:
        raise Wrong(
            f"MLX did not answer within {BACKEND_SECONDS} s: is the machine idle?"
        ) from error
    found = json.loads(answer.stdout.splitlines()[-1])
    text = f"{found['device']}, {found['gflops']:.0f} GFLOP/s"
    if found["blas"]:
        libraries = found["blas"] + (" and oneDNN" if found["onednn_path"] else "")
        text += f" with {libraries} on {found['threads']} threads"
    if found["gflops"] < SLOW_GFLOPS:
        raise Wrong(
            f"{text} is slow: install the package 'mkl' (x86-64) or OpenBLAS, or free a core"
        )
    return text


def _weights(settings: Settings) -> str:
    names = [name for kind in Capability for name in configured(settings, kind)]
    for name in names:
        path = checkpoint_path(name)
        if name in catalogue() and (wrong := differences(path, entry(name))):
            raise Wrong(f"{name}: {wrong[0]}; run `voxqueue models pull --force {name}`")
    return ", ".join(names) or "no model is configured"


def _database(settings: Settings) -> str:
    database = Database(settings.resolved_database_url)
    try:
        require_current(database)
        access.require_guard(database, settings)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise Wrong(f"{reason}: is VOXQUEUE_DATABASE_URL right, and the server up?") from error
    except access.Unguarded as error:
        raise Wrong(str(error)) from error
    finally:
        database.close()
    return f"{database.engine.dialect.name}, schema up to date"


def _broker(settings: Settings) -> str:
    if not settings.broker_url:
        return "embedded: `voxqueue serve` starts it"
    announcer = Announcer(settings.broker_url, settings.broker_prefix)
    try:
        announcer.ping()
    except (redis.RedisError, OSError) as error:
        raise Wrong(f"{error}: is VOXQUEUE_BROKER_URL right, and the server up?") from error
    finally:
        announcer.close()
    return "answers"


def _storage(settings: Settings) -> str:
    open_store(settings.storage_url, settings.storage_dir).check()
    return "S3 bucket answers" if settings.storage_url.startswith("s3:") else "directory"


def _disk(settings: Settings) -> str:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.data_dir).free
    text = f"{free / 2**30:.1f} GiB free in {settings.data_dir}"
    if free < FREE_BYTES:
        raise Wrong(f"only {text}: make room, or set VOXQUEUE_DATA_DIR")
    return text


def _port(settings: Settings) -> str:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise Wrong(
            f"{where}: {error.strerror}; if that is not Voxqueue itself, set VOXQUEUE_PORT"
        ) from error
    return f"{settings.host}:{settings.port} is free"


CHECKS: dict[str, Callable[[Settings], str]] = {
    "python": _python,
    "backend": _backend,
    "weights": _weights,
    "database": _database,
    "broker": _broker,
    "storage": _storage,
    "disk": _disk,
    "port": _port,
}
