"""The span of the request that a job came with, for traces"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("traceparent", sa.String(55), nullable=False, server_default="")
    )


def downgrade() -> None:
    op.drop_column("jobs", "traceparent")
