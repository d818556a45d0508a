"""Where a service of a test keeps its rows, messages and blobs: ``pytest --stack servers`` moves it.

A place belongs to a data directory, so that whoever starts there again finds what was there.
Without the option it is that directory: SQLite, embedded Valkey and local disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.db.engine import Database
from app.db.migration import migrate
from app.settings import PREFIX
from tests import engines
from tests.engines import Postgres, S3Server

PASSWORD = secrets.token_hex(8)


@dataclass
class Servers:
    postgres: Postgres
    template: str
    """Name of a database with all tables; a copy of it is quicker than the migrations."""
    broker_url: str
    s3: S3Server
    opened: ExitStack
    known: dict[Path, tuple[ExitStack, dict[str, str]]] = field(default_factory=dict)

    def settings(self, data: Path) -> dict[str, str]:
        if data not in self.known:
            held = ExitStack()
            self.known[data] = (
                held,
                {
                    "database_url": held.enter_context(self.postgres.database(self.template)),
                    "broker_url": self.broker_url,
                    "broker_prefix": f"{secrets.token_hex(4)}:",
                    "storage_url": self.s3.url(),
                },
            )
            self.opened.push(held)
        return self.known[data][1]


_servers: Servers | None = None


@contextmanager
def servers(directory: Path) -> Iterator[None]:
    """All places of a while are on PostgreSQL, a Valkey with a password and SeaweedFS."""
    global _servers  # noqa: PLW0603 - one for the whole run, and every test process asks for it
    with ExitStack() as opened:
        postgres = opened.enter_context(engines.postgres())
        valkey = engines.valkey(directory / "valkey", password=PASSWORD)
        s3 = opened.enter_context(engines.seaweedfs(directory / "weed"))
        opened.enter_context(engines.environment(s3.env))
        template = opened.enter_context(postgres.database())
        database = Database(template)
        migrate(database)
        name = str(database.engine.url.database)
        database.close()
        _servers = Servers(postgres, name, opened.enter_context(valkey), s3, opened)
        yield
        _servers = None


def on_servers() -> bool:
    return _servers is not None


def settings(data: Path) -> dict[str, str]:
    """The settings that lead to the place; none where it is the directory itself."""
    return _servers.settings(data) if _servers else {}


def env(data: Path) -> dict[str, str]:
    """The same for a process that is started."""
    return {f"{PREFIX}{name.upper()}": value for name, value in settings(data).items()}


def leave(data: Path) -> None:
    """Nobody comes back here."""
    if _servers and data in _servers.known:
        held, _ = _servers.known.pop(data)
        held.close()


def database_url(data: Path) -> str:
    return settings(data).get("database_url") or f"sqlite:///{data}/db.sqlite"


def broker_url(data: Path) -> str:
    return settings(data).get("broker_url") or f"redis+socket://{data / 'valkey' / 'valkey.sock'}"
