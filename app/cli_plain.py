"""What an operator can put right ends a command with a sentence instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from app.access import Unguarded
from app.db.schema import SchemaError
from app.embedded import NoServer
from app.serve import AlreadyRunning
from app.storage import StorageError
from app.telemetry import CannotTrace


@contextmanager
def told_plainly() -> Iterator[None]:
    try:
        yield
    except ValidationError:
        raise  # told in main()
    except (
        AlreadyRunning,
        CannotTrace,
        NoServer,
        SchemaError,
        Unguarded,
        StorageError,
        ValueError,
        OSError,
    ) as error:
        fail(str(error))
    except DBAPIError as error:
        fail(f"the database does not answer: {str(error.orig).splitlines()[0]}")


def fail(message: str) -> NoReturn:
    typer.echo(f"voxqueue: {message}", err=True)
    raise typer.Exit(1)
