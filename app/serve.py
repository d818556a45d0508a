"""``voxqueue serve``: the whole service as one process tree on one machine."""

from __future__ import annotations

import fcntl
import http.client
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from sqlalchemy.exc import DBAPIError

from app.access import require_guard
from app.clock import now
from app.db import queries
from app.db.engine import Database
from app.db.migration import migrate
from app.embedded import EmbeddedValkey
from app.settings import Settings
from app.states import Capability
from app.storage import LocalStore, open_store
from app.supervisor import Child, Supervisor

READY_POLL_SECONDS = 0.5
WORKER_GRACE_SECONDS = 120.0  # one batch of windows on a slow machine

log = structlog.get_logger()


class AlreadyRunning(RuntimeError):
    """Another `voxqueue serve` uses this data directory."""


def serve(settings: Settings, *, split_workers: bool, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM or Ctrl-C; ``announce`` is given the base URL once a model is loaded."""
    data = settings.data_dir.absolute()
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _only_one(data), _listen(settings) as listener:
        port = listener.getsockname()[1]
        settings = settings.with_changes(data_dir=data, port=port)
        valkey = None
        if not settings.broker_url:
            valkey = EmbeddedValkey(data / "valkey")
            settings = settings.with_changes(broker_url=valkey.url)
        _prepare(settings)
        children = list(_children(settings, valkey, listener, split_workers=split_workers))
        Supervisor(children).run(_when_ready(settings, announce))


def _prepare(settings: Settings) -> None:
    database = Database(settings.resolved_database_url)
    migrate(database)
    require_guard(database, settings)
    database.close()
    store = open_store(settings.storage_url, settings.storage_dir)
    store.check()
    if isinstance(store, LocalStore):
        store.clear_incoming()


def _children(
    settings: Settings,
    valkey: EmbeddedValkey | None,
    listener: socket.socket,
    *,
    split_workers: bool,
) -> Iterator[Child]:
    env = settings.to_env()
    if valkey:
        yield Child(name="valkey", command=valkey.command())
    groups = [[kind] for kind in Capability] if split_workers else [list(Capability)]
    for kinds in groups:
        names = ",".join(kinds)
        yield Child(
            name=f"worker {names}",
            command=[sys.executable, "-m", "tasks.worker", "--kinds", names],
            env=env,
            grace_seconds=WORKER_GRACE_SECONDS,
            on_death=lambda pid: bury(settings, pid),
        )
    yield Child(
        name="api",
        command=[sys.executable, "-m", "app.api.server", "--fd", str(listener.fileno())],
        env=env,
        pass_fds=(listener.fileno(),),
    )


def bury(settings: Settings, pid: int) -> None:
    """A dead worker's job need not wait for its lease to run out, unless the database is away."""
    database = Database(settings.resolved_database_url)
    try:
        with database.writing() as connection:
            queries.bury_worker(connection, host=socket.gethostname(), pid=pid, now=now())
    except DBAPIError as error:
        log.warning("worker_not_buried", pid=pid, error=str(error.orig).splitlines()[0])
    finally:
        database.close()


@contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    """The listening socket outlives any one front door, so a restart refuses no connection."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family, backlog=512) as server:
        server.set_inheritable(True)
        yield server


@contextmanager
def _only_one(data: Path) -> Iterator[None]:
    with (data / "serve.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another `voxqueue serve` uses {data}") from None
        yield


def _when_ready(settings: Settings, announce: Callable[[str], None]) -> Callable[[], None]:
    """A step for the supervisor's loop that announces the service once, when it is ready."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    state = {"announced": False, "next": 0.0}

    def step() -> None:
        if state["announced"] or time.monotonic() < state["next"]:
            return
        state["next"] = time.monotonic() + READY_POLL_SECONDS
        if _is_ready(settings):
            state["announced"] = True
            announce(f"http://{host}:{settings.port}")

    return step


def _is_ready(settings: Settings) -> bool:
    connection = http.client.HTTPConnection(settings.host, settings.port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
