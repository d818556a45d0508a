"""Back-off, batches and callbacks of jobs; idempotency keys; webhook deliveries"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _job_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("run_after", UtcDateTime(), nullable=True),
        sa.Column("faults", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_loss", sa.String(length=32), nullable=True),
        sa.Column("purged_at", UtcDateTime(), nullable=True),
        sa.Column("batch_id", sa.String(length=40), nullable=True),
        sa.Column("callback_url", sa.String(length=2000), nullable=True),
        sa.Column("cost", sa.Float(), server_default="0", nullable=False),
    ]


def upgrade() -> None:
    for column in _job_columns():
        op.add_column("jobs", column)
    op.create_index(op.f("ix_jobs_batch_id_state"), "jobs", ["batch_id", "state"])
    op.add_column(
        "windows", sa.Column("model", sa.String(length=300), server_default="", nullable=False)
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_idempotency_keys_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_job_id"), "idempotency_keys", ["job_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("run_after", UtcDateTime(), nullable=False),
        sa.Column("log", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_deliveries_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_state_run_after"), "deliveries", ["state", "run_after"])
    op.create_index(op.f("ix_deliveries_job_id"), "deliveries", ["job_id"])


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("idempotency_keys")
    # Column by column: making the tables anew would cascade to the rows that refer to them.
    op.drop_column("windows", "model")
    op.drop_index(op.f("ix_jobs_batch_id_state"), "jobs")
    for column in reversed(_job_columns()):
        op.drop_column("jobs", column.name)
