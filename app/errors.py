"""Errors that the service answers with. A class docstring is its default message.

Raised anywhere in app/ and rendered in one place (app/api/errors.py); a failed job keeps the same
fields in its row, so that the caller sees one envelope whether it waited or polled.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ServiceError(Exception):
    """The server failed."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = None

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.param = param
        self.headers = headers or {}
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }


class BadRequest(ServiceError):
    """The request is malformed."""

    status = 400
    type = "invalid_request_error"


class BadAudio(BadRequest):
    """The upload is not audio that this service can read."""

    code = "invalid_audio"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, param="file")


class TooLarge(BadRequest):
    """Request body too large."""

    status = 413


class UnsupportedMediaType(BadRequest):
    """The content type is not supported."""

    status = 415


class Unprocessable(BadRequest):
    """The request has the wrong shape."""

    status = 422


class Unauthorized(BadRequest):
    """An API key is needed: send it as 'Authorization: Bearer KEY'."""

    status = 401
    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": "Bearer"})


class TooManyRequests(BadRequest):
    """The key has used up its requests for now. Please try again later."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"


class NotFound(BadRequest):
    """Not found."""

    status = 404
    code = "not_found"


class Conflict(BadRequest):
    """The job is not finished."""

    status = 409


class Gone(BadRequest):
    """The result has expired."""

    status = 410


class AudioNotSupported(ServiceError):
    """The current model does not support audio input."""

    status = 501
    type = "not_supported_error"


class KindNotLoaded(ServiceError):
    """Audio model kind not loaded."""

    status = 501
    type = "not_implemented"


class Busy(ServiceError):
    """All slots are busy. Please try again later."""

    status = 503
    type = "server_busy"


class Unavailable(ServiceError):
    """A part of the service is failing. Please try again later."""

    status = 503
    code = "unavailable"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"Retry-After": "5"})


class WaitTimeout(ServiceError):
    """Audio request timed out. Please try again later."""

    status = 504
    type = "server_timeout"


class RequestTimeout(BadRequest):
    """The request body did not arrive in time."""

    status = 408
