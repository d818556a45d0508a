"""What a batch has come to, as JSON lines: an output for each success, an error for all others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast

from app.db import batches as rows
from app.db import queries
from app.db.records import Batch, BatchLine, Job
from app.jobs import files, formats
from app.jobs.formats import Format
from app.jobs.services import Services
from app.states import Kind, LineState
from models.transcript import Transcript

PAGE = 500  # lines in hand
READERS = 8  # results read at a time
SPOOL_BYTES = 8 << 20
EXPIRED = "batch_expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    output_file_id: str | None
    error_file_id: str | None
    expired: bool
    """Some line was not done in time."""


def write(services: Services, batch: Batch) -> Results:
    """Both files, of which one without lines is not made. Raises Unavailable or StorageError."""
    expired = False
    with (
        tempfile.SpooledTemporaryFile(SPOOL_BYTES) as done,
        tempfile.SpooledTemporaryFile(SPOOL_BYTES) as failed,
    ):
        for line, entry in _entries(services, batch):
            ok = entry["response"] is not None and entry["response"]["status_code"] == 200
            (done if ok else failed).write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            expired = expired or (line.error or {}).get("code") == EXPIRED
        return Results(
            output_file_id=_file(services, batch, cast("BinaryIO", done), "output"),
            error_file_id=_file(services, batch, cast("BinaryIO", failed), "error"),
            expired=expired,
        )


def _entries(services: Services, batch: Batch) -> Iterator[tuple[BatchLine, dict[str, Any]]]:
    with ThreadPoolExecutor(READERS, "results") as pool:
        number = 0
        while True:
            with services.database.reading() as connection:
                page = rows.lines_from(connection, batch.id, number, limit=PAGE)
            if not page:
                return
            yield from zip(page, pool.map(partial(_entry, services, batch), page), strict=True)
            number = page[-1].number + 1


def _entry(services: Services, batch: Batch, line: BatchLine) -> dict[str, Any]:
    response, error = None, line.error
    if line.state is LineState.SUCCEEDED:
        response, error = _response(services, line)
    elif line.job_id and error and "status" in error:  # the job's own failure
        body = {key: value for key, value in error.items() if key != "status"}
        response = {
            "status_code": error["status"],
            "request_id": line.job_id,
            "body": {"error": body},
        }
        error = None
    return {
        "id": f"batch_req_{batch.id.removeprefix('batch_')}_{line.number}",
        "custom_id": line.custom_id,
        "response": response,
        "error": error and {"code": error["code"], "message": error["message"]},
    }


def _response(
    services: Services, line: BatchLine
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    with services.database.reading() as connection:
        job = queries.get_job(connection, line.job_id or "")
    if job is None or job.output_key is None:
        return None, {"code": "expired", "message": "The result was deleted before it was read."}
    body = _speech(services, job) if job.kind is Kind.SPEECH else _transcript(services, job)
    return {"status_code": 200, "request_id": job.id, "body": body}, None


def _speech(services: Services, job: Job) -> dict[str, Any]:
    """No WAV fits into a line: the file that has it."""
    file = files.of_speech(services, job)
    return {
        "file_id": file.id,
        "bytes": file.bytes,
        "content_type": "audio/wav",
        "duration": (job.metrics or {}).get("audio_seconds"),
    }


def _transcript(services: Services, job: Job) -> Any:
    """OpenAI's shapes; a text for those formats that are texts."""
    with services.store.open(job.output_key or "") as file:
        transcript = Transcript.from_json(json.load(file))
    rendered = formats.render(transcript, Format(job.options.get("response_format", Format.JSON)))
    is_json = rendered.media_type == "application/json"
    return json.loads(rendered.body) if is_json else rendered.body


def _file(services: Services, batch: Batch, spool: BinaryIO, what: str) -> str | None:
    if not spool.tell():
        return None
    made = files.create(
        services,
        spool,
        owner=batch.owner,
        purpose="batch_output",
        filename=f"{batch.id}_{what}.jsonl",
    )
    return made.id
