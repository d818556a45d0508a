"""A job's text as it is made, piece by piece, for the caller that waits for it on a stream.

Every attempt tells the text from its start; who listens, and what they have heard already, is the
front door's business (app/jobs/follow.py). The stored transcript is the truth: what cannot be told
is only told later.
"""

from __future__ import annotations

from itertools import count

import structlog
from redis import RedisError

from app.broker import Piece
from tasks.attempt import Attempt

log = structlog.get_logger()


class Telling:
    def __init__(self, attempt: Attempt, *, streams: bool) -> None:
        """``streams``: the model's own word for whether there will be pieces at all."""
        job = attempt.job
        self._announcer, self._job = attempt.services.announcer, job
        self._numbers = count()
        self._length = 0
        self.open = streams and job.sync and bool(job.options.get("stream"))
        self._tell("")

    def add(self, piece: str) -> None:
        if piece:
            self._length += len(piece)
            self._tell(piece)

    def reach(self, text: str) -> None:
        """Add what the text so far has beyond what was told."""
        self.add(text[self._length :])

    def _tell(self, text: str) -> None:
        if not self.open:
            return
        piece = Piece(attempt=self._job.attempt, number=next(self._numbers), text=text)
        try:
            self._announcer.tell(self._job.id, piece)
        except RedisError as error:
            log.warning("text_not_told", error=str(error))
            self.open = False  # a gap would be noticed anyway
