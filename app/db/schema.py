"""The schema's version: bring it up to date, or refuse to run on any other one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

import migrations
from app.db.engine import Database
from app.db.queries import lock


class SchemaError(RuntimeError):
    """The database has another schema than this version of Voxqueue."""


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


@cache
def head() -> str:
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise SchemaError("migrations/versions is empty")
    return revision


def current(database: Database) -> str | None:
    with database.reading() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(database: Database, revision: str = "head") -> None:
    """Upgrade (or, to an older revision, downgrade) in one transaction; safe to call twice."""
    with database.writing() as connection:
        lock(connection, "schema")
        config = _config(connection)
        now = MigrationContext.configure(connection).get_current_revision()
        _require_known(now)
        if revision not in _known() | {"head", "base"}:
            raise SchemaError(f"no schema {revision}; there are {', '.join(sorted(_known()))}")
        ancestors = {
            item.revision
            for item in ScriptDirectory.from_config(config).iterate_revisions(now, "base")
        }
        if revision in ancestors - {now} or revision == "base":
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)


def require_current(database: Database) -> None:
    """Raise SchemaError with the command to run unless the schema is this version's own."""
    found, wanted = current(database), head()
    _require_known(found)
    if found != wanted:
        raise SchemaError(
            f"the database is at schema {found or 'none'}, this version needs {wanted}: "
            "run `voxqueue migrate`"
        )


def _require_known(revision: str | None) -> None:
    if revision and revision not in _known():
        raise SchemaError(
            f"the database is at schema {revision}, which this version does not know: "
            "a newer Voxqueue has made it, so run that one"
        )


@cache
def _known() -> frozenset[str]:
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return frozenset(script.revision for script in scripts)
