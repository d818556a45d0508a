"""Jobs, their windows, workers and leases"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("capability", sa.String(length=8), nullable=False),
        sa.Column("lane", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("sync", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(length=64), server_default="", nullable=False),
        sa.Column("input_key", sa.String(length=200), nullable=True),
        sa.Column("input_name", sa.String(length=300), server_default="", nullable=False),
        sa.Column("input_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_sha256", sa.String(length=64), server_default="", nullable=False),
        sa.Column("input_seconds", sa.Float(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("enqueued_at", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("deadline_at", UtcDateTime(), nullable=True),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("losses", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker", sa.String(length=40), nullable=True),
        sa.Column("lease_expires_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("progress", sa.Float(), server_default="0", nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("output_key", sa.String(length=200), nullable=True),
        sa.Column("output_bytes", sa.BigInteger(), nullable=True),
        sa.Column("output_sha256", sa.String(length=64), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_jobs_created_at_id"), ["created_at", "id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_jobs_expires_at"), ["expires_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_jobs_state_capability_lane_created_at"),
            ["state", "capability", "lane", "created_at"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_jobs_state_lease_expires_at"),
            ["state", "lease_expires_at"],
            unique=False,
        )

    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_workers_seen_at"), ["seen_at"], unique=False)

    op.create_table(
        "windows",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("start_sample", sa.Integer(), nullable=False),
        sa.Column("end_sample", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("transcript", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_windows_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_windows")),
    )


def downgrade() -> None:
    op.drop_table("windows")
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_workers_seen_at"))

    op.drop_table("workers")
    op.drop_table("leases")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_state_lease_expires_at"))
        batch_op.drop_index(batch_op.f("ix_jobs_state_capability_lane_created_at"))
        batch_op.drop_index(batch_op.f("ix_jobs_expires_at"))
        batch_op.drop_index(batch_op.f("ix_jobs_created_at_id"))

    op.drop_table("jobs")
