"""JSON bodies of the resources around jobs: bounded, and told what is wrong with them."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from app.api.context import services
from app.api.errors import unprocessable
from app.api.multipart import read_body
from app.errors import BadRequest

MAX_BYTES = 1 << 20

Body = TypeVar("Body", bound=BaseModel)


async def read_json(request: Request, shape: type[Body]) -> Body:
    """Raises BadRequest, TooLarge or Unprocessable."""
    seconds = services(request).settings.upload_timeout_seconds
    data = await read_body(request, max_bytes=MAX_BYTES, max_seconds=seconds)
    try:
        return shape.model_validate(json.loads(data))
    except ValidationError as error:
        raise unprocessable(error.errors()[0]) from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
