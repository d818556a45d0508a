"""The schema's version: refuse to run on any other one. app/db/migration.py changes it.

Nothing here loads Alembic, which would be a tenth of the front door's start.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlalchemy import inspect, text

import migrations
from app.db.engine import Database

SCRIPTS = Path(migrations.__file__).parent


class SchemaError(RuntimeError):
    """The database has another schema than this version of Voxqueue."""


@cache
def revisions() -> tuple[str, ...]:
    """All that this version knows, the oldest first: each begins the name of its script."""
    names = (path.name for path in (SCRIPTS / "versions").glob("[0-9]*_*.py"))
    return tuple(sorted(name.partition("_")[0] for name in names))


def current(database: Database) -> str | None:
    with database.reading() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def require_current(database: Database) -> None:
    """Raise SchemaError with the command to run unless the schema is this version's own."""
    found, wanted = current(database), revisions()[-1]
    require_known(found)
    if found != wanted:
        raise SchemaError(
            f"the database is at schema {found or 'none'}, this version needs {wanted}: "
            "run `voxqueue migrate`"
        )


def require_known(revision: str | None) -> None:
    if revision and revision not in revisions():
        raise SchemaError(
            f"the database is at schema {revision}, which this version does not know: "
            "a newer Voxqueue has made it, so run that one"
        )
