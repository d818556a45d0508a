"""Shares: batches of windows of one recording, heard by several workers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.db.tables import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=40), nullable=False),
        sa.Column("lease_expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_shares_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "number", name=op.f("pk_shares")),
    )
    op.create_index(op.f("ix_shares_lease_expires_at"), "shares", ["lease_expires_at"])


def downgrade() -> None:
    op.drop_table("shares")
