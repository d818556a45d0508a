"""Index of finished jobs by the time they ended, for metrics"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_jobs_finished_at"), "jobs", ["finished_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_finished_at"), "jobs")
