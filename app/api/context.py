"""What a request handler finds in the application's state."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from app.jobs.services import Services
from app.jobs.wait import Doorbell


def services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


def doorbell(request: Request) -> Doorbell:
    return cast("Doorbell", request.app.state.doorbell)


def owner(request: Request) -> str:
    """The caller's API key; empty where none is asked for, which is who may see everything."""
    return getattr(request.state, "owner", "")


async def _owner(request: Request) -> str:
    return owner(request)


async def _services(request: Request) -> Services:
    return services(request)


async def _doorbell(request: Request) -> Doorbell:
    return doorbell(request)


# Asynchronous, since FastAPI sends any other function to a thread of its own.
Owner = Annotated[str, Depends(_owner)]
ServicesDep = Annotated[Services, Depends(_services)]
DoorbellDep = Annotated[Doorbell, Depends(_doorbell)]
