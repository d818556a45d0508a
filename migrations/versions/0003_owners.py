"""API keys and the owners of jobs; memory of workers; indexes for millions of finished jobs"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OLD_INDEX = ["state", "capability", "lane", "created_at"]
NEW_INDEXES = [
    ["owner", "created_at", "id"],
    ["state", "capability", "created_at"],
    ["state", "created_at", "id"],
    ["purged_at"],
]


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index(op.f("ix_api_keys_sha256"), "api_keys", ["sha256"], unique=True)
    op.add_column(
        "jobs", sa.Column("owner", sa.String(length=40), server_default="", nullable=False)
    )
    op.add_column("workers", sa.Column("memory", sa.JSON(), nullable=True))
    for columns in NEW_INDEXES:
        op.create_index(_name(columns), "jobs", columns)
    op.drop_index(_name(OLD_INDEX), "jobs")
    op.drop_index(op.f("ix_jobs_expires_at"), "jobs")
    kept = sa.text("purged_at IS NULL")
    op.create_index(
        op.f("ix_jobs_expires_at"),
        "jobs",
        ["expires_at"],
        sqlite_where=kept,
        postgresql_where=kept,
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_expires_at"), "jobs")
    op.create_index(op.f("ix_jobs_expires_at"), "jobs", ["expires_at"])
    op.create_index(_name(OLD_INDEX), "jobs", OLD_INDEX)
    for columns in NEW_INDEXES:
        op.drop_index(_name(columns), "jobs")
    op.drop_column("workers", "memory")
    op.drop_column("jobs", "owner")
    op.drop_table("api_keys")


def _name(columns: list[str]) -> str:
    return op.f("ix_jobs_" + "_".join(columns))
