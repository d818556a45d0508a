"""What a worker's waveform boundary has counted, for metrics"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("audio_counts", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("workers", "audio_counts")
