"""Jobs as JSON, the same wherever one is shown."""

from __future__ import annotations

from typing import Any

from app.db import deliveries
from app.db.records import Delivery, Job
from app.jobs import describe, estimates
from app.jobs.services import Services
from app.states import DeliveryState, JobState


def job(services: Services, shown: Job) -> dict[str, Any]:
    body = describe.job(shown)
    if shown.state is JobState.QUEUED:
        estimate = estimates.estimate(services, shown)
        body |= {
            "queue_position": estimate.position,
            "estimated_wait_seconds": estimate.wait_seconds,
        }
    return body


def webhook(services: Services, shown: Job) -> dict[str, Any]:
    """Where the final state is told, and how that went."""
    if shown.callback_url is None:
        return {}
    with services.database.reading() as connection:
        found = deliveries.of_job(connection, shown.id)
    return {
        "callback_url": shown.callback_url,
        "deliveries": [_delivery(delivery) for delivery in found],
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    waiting = delivery.state is DeliveryState.PENDING
    return {
        "id": delivery.id,
        "status": delivery.state,
        "attempts": delivery.attempts,
        "next_attempt_at": describe.time(delivery.run_after) if waiting else None,
        "log": delivery.log,
    }
