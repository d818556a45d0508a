"""The engine and its transactions. ``writing()`` commits at its end; ``reading()`` never locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url

BUSY_SECONDS = 30  # s a SQLite writer waits for another before it gives up
CONNECT_SECONDS = 5  # s to reach a PostgreSQL server
HIDE_PARAMETERS = True  # in error messages, which are logged: they hold what callers sent
KEEPALIVE_SECONDS = 30  # s of silence after which a connection is probed


class Database:
    def __init__(self, url: str) -> None:
        self.url = url
        sqlite = url.startswith("sqlite")
        self.engine = _sqlite(url) if sqlite else _server(url)
        # To begin and end a transaction is two more trips to a server, for a read of nothing.
        self._reading = {"reading": True} | ({} if sqlite else {"isolation_level": "AUTOCOMMIT"})

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """One transaction, exclusive among writers on SQLite from its first statement on.

        One that is not ``durable`` survives the death of every process, but not a power cut; it
        saves SQLite a wait for the disk.
        """
        options = self.engine.connect().execution_options(durable=durable)
        with options as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(**self._reading) as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def _server(url: str) -> Engine:
    return create_engine(
        url,
        hide_parameters=HIDE_PARAMETERS,
        pool_pre_ping=True,  # a connection that a restart of the server broke is replaced unseen
        pool_size=10,
        max_overflow=20,
        connect_args={"connect_timeout": CONNECT_SECONDS, "keepalives_idle": KEEPALIVE_SECONDS},
    )


def _sqlite(url: str) -> Engine:
    path = make_url(url).database
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, connect_args={"timeout": BUSY_SECONDS}, hide_parameters=HIDE_PARAMETERS
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # this module begins transactions, not the driver
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A deferred transaction that reads and then writes fails with "database is locked"
        # whatever the timeout, so writers take the lock at once.
        options = connection.get_execution_options()
        if options.get("reading", False):
            connection.exec_driver_sql("BEGIN")
            return
        level = "FULL" if options.get("durable", True) else "NORMAL"
        connection.exec_driver_sql(f"PRAGMA synchronous={level}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
