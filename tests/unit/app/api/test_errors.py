from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from app.api import errors
from app.storage import StorageError

WORDS = "/srv/data/db.sqlite at postgresql://vox:hunter2@db/vox"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (OperationalError("SELECT 1", {}, OSError(WORDS)), 503, "The database failed."),
        (StorageError(WORDS), 503, "The storage failed."),
        (OSError(28, "No space left on device", "/srv/data"), 500, "The server failed."),
        (RuntimeError(WORDS), 500, "The server failed."),
    ],
)
def test_what_failed_is_told_to_the_caller_and_why_to_the_log(
    exchange: Callable[..., Any], error: Exception, status: int, message: str
) -> None:
    app = FastAPI()
    errors.install(app)

    @app.get("/")
    def fail() -> None:
        raise error

    asked = exchange(b"", method="GET")
    with capture_logs() as logs:
        asked.run(app)
    found = json.loads(asked.body)["error"]
    assert (asked.status, found["message"].startswith(message)) == (status, True)
    assert "srv" not in asked.body.decode()
    assert "hunter2" not in asked.body.decode()
    assert [log["log_level"] for log in logs] == ["error"]
