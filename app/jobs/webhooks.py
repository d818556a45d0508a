"""Webhooks: each final state that somebody is to be told, POSTed until it has been taken.

The outbox row was written with the state itself, so no state goes untold; a delivery that was made
but not recorded is made again, under the same id. Signed after the Standard Webhooks specification.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from standardwebhooks import Webhook

from app.clock import now
from app.db import deliveries, queries
from app.db.records import Delivery, Job
from app.jobs import describe, post
from app.jobs.services import Services
from app.settings import Settings
from app.states import DeliveryState

AT_ONCE = 8  # deliveries in flight, so that one slow receiver does not hold up the others
SPARE_SECONDS = 30.0  # beyond the timeout, before another process may take up a delivery
BACKOFF_FACTOR = 4.0
MAX_BACKOFF_SECONDS = 86_400.0
GONE = 410  # the receiver wants no more of it
SECRET_BYTES = 32

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one attempt went; no status when there was no HTTP answer."""

    status: int | None = None
    error: str | None = None

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def entry(self, moment: datetime) -> dict[str, Any]:
        given = {"status": self.status, "error": self.error}
        shown = {key: value for key, value in given.items() if value is not None}
        return {"at": describe.time(moment), **shown}


def deliver(services: Services, signer: Webhook) -> int:
    """Make the deliveries that are due; the number of those made."""
    with services.database.reading() as connection:
        due = deliveries.due(connection, now(), limit=4 * AT_ONCE)
    if not due:
        return 0
    with ThreadPoolExecutor(AT_ONCE, "webhook") as pool:
        return sum(pool.map(lambda delivery: _deliver(services, signer, delivery), due))


def _deliver(services: Services, signer: Webhook, delivery: Delivery) -> bool:
    settings, moment = services.settings, now()
    until = moment + timedelta(seconds=settings.webhook_timeout_seconds + SPARE_SECONDS)
    with services.database.writing() as connection:
        if not deliveries.claim(connection, delivery, until=until):
            return False  # another process has it
        job = queries.get_job(connection, delivery.job_id)
    if job is None or job.callback_url is None:
        return False
    answer = _post(settings, signer, delivery, job)
    state, wait = _next(settings, delivery.attempts + 1, answer)
    with services.database.writing() as connection:
        deliveries.record(
            connection,
            delivery,
            state=state,
            run_after=now() + timedelta(seconds=wait),
            log=[*delivery.log, answer.entry(moment)],
        )
    log.info("webhook_sent", job_id=job.id, delivery=delivery.id, state=state, status=answer.status)
    return True


def _post(settings: Settings, signer: Webhook, delivery: Delivery, job: Job) -> Answer:
    moment = now()
    event = {"type": f"job.{job.state}", "timestamp": describe.time(moment)}
    body = json.dumps({**event, "data": describe.job(job)}, separators=(",", ":"))
    headers = {
        "content-type": "application/json",
        "user-agent": "Voxqueue",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": signer.sign(delivery.id, moment, body),
    }
    try:
        status = post.post(
            job.callback_url or "",
            body.encode(),
            headers,
            seconds=settings.webhook_timeout_seconds,
            allow=settings.webhook_allow,
        )
    except post.NotDelivered as error:
        return Answer(error=str(error))
    return Answer(status=status)


def _next(settings: Settings, attempts: int, answer: Answer) -> tuple[DeliveryState, float]:
    """What becomes of the delivery, and when it is tried again, in seconds."""
    if answer.taken:
        return DeliveryState.DELIVERED, 0.0
    if answer.status == GONE or attempts >= settings.webhook_attempts:
        return DeliveryState.FAILED, 0.0
    wait = settings.webhook_backoff_seconds * BACKOFF_FACTOR ** (attempts - 1)
    return DeliveryState.PENDING, min(wait, MAX_BACKOFF_SECONDS)


def open_signer(settings: Settings) -> Webhook:
    """Raises ValueError for a secret that is not one."""
    return Webhook(settings.webhook_secret or _kept_secret(settings.data_dir / "webhook-secret"))


def _kept_secret(path: Path) -> str:
    """The installation's own secret, made at first use."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.touch(mode=0o600)
        made.write_text("whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
        with suppress(FileExistsError):
            path.hardlink_to(made)  # whole or not at all, and only the first
        made.unlink()
    return path.read_text()
