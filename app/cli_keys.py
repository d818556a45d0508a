"""``voxqueue keys``: make, list and revoke the API keys of the service's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app import access
from app.cli_plain import fail, told_plainly
from app.clock import now
from app.db import keys
from app.db.engine import Database
from app.db.schema import require_current
from app.settings import Settings

keys_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")

Limit = Annotated[
    int | None,
    typer.Option(min=0, help="Requests in any minute; 0: any number. Default: settings."),
]


DataDir = Annotated[Path | None, typer.Option(help="Directory of the service's rows.")]


@contextmanager
def _database(data_dir: Path | None) -> Iterator[Database]:
    with told_plainly():
        database = Database(Settings().with_changes(data_dir=data_dir).resolved_database_url)
        require_current(database)
        yield database
        database.close()


@keys_app.command()
def create(name: str, *, requests_per_minute: Limit = None, data_dir: DataDir = None) -> None:
    """Make a key and print its token, which is shown this once and kept nowhere."""
    with _database(data_dir) as database:
        key, token = access.create(database, name, requests_per_minute=requests_per_minute)
    typer.echo(f"{key.id}  {key.name}", err=True)
    typer.echo(token)


@keys_app.command("list")
def list_keys(*, data_dir: DataDir = None) -> None:
    """Show every key: id, name, when it was made, and whether it is still in use."""
    with _database(data_dir) as database, database.reading() as connection:
        for key in keys.list_keys(connection):
            state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else "in use"
            typer.echo(f"{key.id}  {key.created_at:%Y-%m-%d}  {state:<18}  {key.name}")


@keys_app.command()
def revoke(key_id: str, *, data_dir: DataDir = None) -> None:
    """Take a key out of use at once; its jobs stay until they expire."""
    with _database(data_dir) as database, database.writing() as connection:
        if not keys.revoke(connection, key_id, now()):
            fail(f"no key {key_id} is in use")
