"""``/v1/batches`` in OpenAI's shape, for the three audio endpoints."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from app.api import openapi
from app.api.bodies import read_json
from app.api.context import Owner, ServicesDep, services
from app.api.files import page
from app.db import batches as rows
from app.db.records import Batch
from app.errors import BadRequest
from app.jobs import batches
from app.states import BatchState

HOURS_LONGEST = 168  # a job's result is kept for a week
_WINDOW = re.compile(r"([1-9][0-9]{0,2})(h|d)")

BatchId = Annotated[str, Path(max_length=40, pattern="^batch_[0-9a-f]{32}$")]
Cursor = Annotated[str | None, Query(max_length=40)]
Text = Annotated[str, Field(max_length=512)]

router = APIRouter(prefix="/v1/batches", tags=["batches"])


class BatchRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    input_file_id: Annotated[str, Field(description="Of a file with one request a line.")]
    endpoint: Annotated[
        str, Field(description=f"Of all its lines: {', '.join(batches.ENDPOINTS)}.")
    ]
    completion_window: Annotated[
        str, Field(description="Such as `24h` or `7d`; what is not done by then has expired.")
    ] = "24h"
    metadata: Annotated[dict[str, Text] | None, Field(max_length=16)] = None


@router.post(
    "", openapi_extra=openapi.json_body(BatchRequest), responses=openapi.errors(400, 404, 422)
)
async def create_batch(request: Request, owner: Owner) -> dict[str, Any]:
    """Have every request of a file done, in the bulk lane."""
    wanted = await read_json(request, BatchRequest)
    if wanted.endpoint not in batches.ENDPOINTS:
        raise BadRequest(
            f"'endpoint' must be one of {', '.join(batches.ENDPOINTS)}", param="endpoint"
        )
    seconds = _seconds(wanted.completion_window)

    def create() -> Batch:
        return batches.create(
            services(request),
            owner=owner,
            endpoint=wanted.endpoint,
            input_file_id=wanted.input_file_id,
            window=wanted.completion_window,
            seconds=seconds,
            metadata=wanted.metadata,
        )

    return view(await anyio.to_thread.run_sync(create))


@router.get("")
def list_batches(
    services: ServicesDep,
    owner: Owner,
    *,
    after: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """Newest first; ``after`` is the id of the last batch of the page before."""
    cursor = batches.get(services, after, owner) if after else None
    with services.database.reading() as connection:
        found = rows.list_batches(connection, owner=owner, after=cursor, limit=limit + 1)
    return page([view(batch) for batch in found], limit)


@router.get("/{batch_id}")
def get_batch(services: ServicesDep, owner: Owner, batch_id: BatchId) -> dict[str, Any]:
    return view(batches.get(services, batch_id, owner))


@router.post("/{batch_id}/cancel", responses=openapi.errors(404, 409))
def cancel_batch(services: ServicesDep, owner: Owner, batch_id: BatchId) -> dict[str, Any]:
    """What is done stays done, and is in the output file."""
    return view(batches.cancel(services, batch_id, owner))


def view(batch: Batch) -> dict[str, Any]:
    moments = {f"{state}_at": _unix(getattr(batch, f"{state}_at", None)) for state in BatchState}
    del moments["validating_at"]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": batch.state,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": _unix(batch.created_at),
        "expires_at": _unix(batch.expires_at),
        **moments,
        "request_counts": {
            "total": batch.total,
            "completed": batch.completed,
            "failed": batch.failed,
        },
        "metadata": batch.metadata,
    }


def _unix(moment: datetime | None) -> int | None:
    return int(moment.timestamp()) if moment else None


def _seconds(window: str) -> float:
    match = _WINDOW.fullmatch(window)
    hours = int(match[1]) * (24 if match[2] == "d" else 1) if match else 0
    if not 0 < hours <= HOURS_LONGEST:
        raise BadRequest(
            f"'completion_window' must be such as 24h or 7d, at most {HOURS_LONGEST}h",
            param="completion_window",
        )
    return hours * 3600.0
