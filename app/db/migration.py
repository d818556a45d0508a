"""Brings the schema up to date, or back, by Alembic."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.queries import lock
from app.db.schema import SCRIPTS, SchemaError, require_known, revisions


def configuration(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    return config


def migrate(database: Database, revision: str = "head") -> None:
    """Upgrade (or, to an older revision, downgrade) in one transaction; safe to call twice."""
    with database.writing() as connection:
        lock(connection, "schema")
        config = configuration(connection)
        now = MigrationContext.configure(connection).get_current_revision()
        require_known(now)
        if revision not in {*revisions(), "head", "base"}:
            raise SchemaError(f"no schema {revision}; there are {', '.join(revisions())}")
        if revision == "base" or (now and revision < now):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)
