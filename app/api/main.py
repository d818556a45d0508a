"""``create_app``: routers, error handlers and the lifespan with its sweep. Nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio.to_thread
import structlog
from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from app.api import (
    audio,
    batch_lines,
    batches,
    bulk,
    catalog,
    errors,
    files,
    health,
    jobs,
    metrics,
    openapi,
)
from app.api.auth import ApiKeys
from app.api.head import HeadAsGet
from app.api.request_id import RequestId
from app.api.security import SecurityHeaders
from app.api.tracing import TELEMETRY
from app.api.unread import UnreadBody
from app.clock import new_id
from app.jobs.batches import feed
from app.jobs.services import Services, open_services
from app.jobs.sweep import sweep
from app.jobs.wait import Doorbell
from app.jobs.webhooks import deliver, open_signer
from app.metrics import Metrics
from app.settings import Settings
from app.storage import StorageError

log = structlog.get_logger()


def create_app(settings: Settings) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with open_services(settings) as services:
            app.state.services = services
            signer, stop = open_signer(settings), threading.Event()
            app.state.doorbell = Doorbell(settings.broker_url, settings.broker_prefix)
            tasks = [
                asyncio.create_task(app.state.doorbell.listen()),
                asyncio.create_task(_for_ever(services, partial(sweep, services, new_id("swp")))),
                asyncio.create_task(_for_ever(services, partial(deliver, services, signer))),
                asyncio.create_task(_for_ever(services, _feeder(services, stop))),
            ]
            try:
                yield
            finally:
                stop.set()
                for task in tasks:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    # A path with a stray slash is unknown, not moved: clients resend no form to another address.
    app = FastAPI(lifespan=lifespan, redirect_slashes=False, telemetry=TELEMETRY, **openapi.ABOUT)
    for module in (audio, bulk, jobs, files, batches, catalog, health, metrics):
        app.include_router(module.router)
    app.add_middleware(ApiKeys, settings=settings)
    errors.install(app)
    app.state.metrics = Metrics()
    app.add_middleware(metrics.CountRequests, metrics=app.state.metrics)
    for middleware in (
        HeadAsGet,
        UnreadBody,
        SecurityHeaders,
        RequestId,
    ):  # the last one is the outermost
        app.add_middleware(middleware)
    return app


def _feeder(services: Services, stop: threading.Event) -> Callable[[], None]:
    return partial(feed, services, new_id("fed"), batch_lines.read, stop)


async def _for_ever(services: Services, work: Callable[[], object]) -> None:
    while True:
        try:
            await anyio.to_thread.run_sync(work)
        except (DBAPIError, StorageError) as error:  # away for a while: a line, not a traceback
            log.warning("sweep_failed", error=str(error).splitlines()[0])
        except Exception:  # whatever failed, the next round tries again
            log.exception("sweep_failed")
        await asyncio.sleep(services.settings.sweep_seconds)
