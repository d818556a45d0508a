"""Runs the revisions on the connection that ``app.db.schema`` hands over."""

from __future__ import annotations

from alembic import context

from app.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",  # SQLite cannot alter a column
)
with context.begin_transaction():
    context.run_migrations()
