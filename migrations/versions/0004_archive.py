"""Content keys, so that nothing is done twice; files and batches in OpenAI's shape"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENTS = ["in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"]


def upgrade() -> None:
    op.add_column("jobs", sa.Column("content_key", sa.String(length=64), nullable=True))
    keyed = sa.text("content_key IS NOT NULL")
    op.create_index(
        op.f("ix_jobs_content_key"),
        "jobs",
        ["content_key"],
        sqlite_where=keyed,
        postgresql_where=keyed,
    )
    op.create_table(
        "files",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=40), server_default="", nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index(op.f("ix_files_owner_created_at_id"), "files", ["owner", "created_at", "id"])
    op.create_index(op.f("ix_files_expires_at"), "files", ["expires_at"])
    op.create_table(
        "batches",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=40), server_default="", nullable=False),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("input_file_id", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("completion_window", sa.String(length=16), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=True),
        sa.Column("errors", sa.JSON(), nullable=True),
        sa.Column("total", sa.Integer(), server_default="0", nullable=False),
        sa.Column("completed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("output_file_id", sa.String(length=40), nullable=True),
        sa.Column("error_file_id", sa.String(length=40), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        *(sa.Column(f"{name}_at", UtcDateTime(), nullable=True) for name in MOMENTS),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    op.create_index(
        op.f("ix_batches_owner_created_at_id"), "batches", ["owner", "created_at", "id"]
    )
    op.create_index(op.f("ix_batches_state"), "batches", ["state"])
    op.create_table(
        "batch_lines",
        sa.Column("batch_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("custom_id", sa.String(length=512), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("body", sa.JSON(), nullable=True),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
            name=op.f("fk_batch_lines_batch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("batch_id", "number", name=op.f("pk_batch_lines")),
    )
    op.create_index(
        op.f("ix_batch_lines_batch_id_state_number"), "batch_lines", ["batch_id", "state", "number"]
    )


def downgrade() -> None:
    for table in ("batch_lines", "batches", "files"):
        op.drop_table(table)
    op.drop_index(op.f("ix_jobs_content_key"), "jobs")
    op.drop_column("jobs", "content_key")
