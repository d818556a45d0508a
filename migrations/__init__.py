"""Alembic's environment and revisions, from the first table on."""
