"""Idempotency keys: a request repeated under its key joins the job of the first, running or done.

The draft (draft-ietf-httpapi-idempotency-key-header) would refuse a repetition while the first is
in flight; here the job is a resource, so there is something to join.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from app.db import idempotency as rows
from app.db import queries
from app.db.records import IdempotencyKey, Job
from app.errors import BadRequest, Unprocessable
from app.jobs.services import Services

if TYPE_CHECKING:
    from app.jobs.submit import Submission

KEY_CHARACTERS = 255
CHUNK = 1 << 20  # bytes hashed at a time
HEADER = "Idempotency-Key"


def key_of(submission: Submission) -> IdempotencyKey | None:
    """Raises BadRequest for a key that is empty, too long or not printable ASCII."""
    key = submission.idempotency_key
    if key is None:
        return None
    if not key or len(key) > KEY_CHARACTERS or not (key.isascii() and key.isprintable()):
        raise BadRequest(
            f"{HEADER} must be 1 to {KEY_CHARACTERS} printable ASCII characters", param=HEADER
        )
    return IdempotencyKey(owner=submission.owner, key=key, fingerprint=_fingerprint(submission))


def _fingerprint(submission: Submission) -> str:
    digest = hashlib.sha256()
    parts = [submission.kind, submission.lane, submission.options, submission.callback_url]
    digest.update(json.dumps(parts, sort_keys=True).encode())
    if upload := submission.upload:
        upload.file.seek(0)
        while chunk := upload.file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def twin(services: Services, key: IdempotencyKey) -> Job | None:
    with services.database.reading() as connection:
        return find_twin(connection, key)


def find_twin(connection: Connection, key: IdempotencyKey) -> Job | None:
    """The job that was submitted under the key; raises Unprocessable if by another request."""
    found = rows.find(connection, key)
    if found is None:
        return None
    job_id, fingerprint = found
    if fingerprint != key.fingerprint:
        raise Unprocessable(f"This {HEADER} was used before, with another request.", param=HEADER)
    return queries.get_job(connection, job_id)
