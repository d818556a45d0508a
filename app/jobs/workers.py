"""What the live workers offer, and so what the service can do right now."""

from __future__ import annotations

from datetime import timedelta

from app.clock import now
from app.db import queries
from app.db.records import LoadedModel, Worker
from app.errors import AudioNotSupported, Busy, KindNotLoaded
from app.jobs.services import Services
from app.settings import Settings
from app.states import Capability, Kind

RETRY_SECONDS = 5  # what Retry-After says while a worker starts


def live(services: Services) -> list[Worker]:
    after = now() - timedelta(seconds=services.settings.worker_stale_seconds)
    with services.database.reading() as connection:
        return queries.live_workers(connection, after)


def _known(services: Services) -> list[Worker]:
    after = now() - timedelta(seconds=services.settings.worker_stale_seconds)
    with services.database.reading() as connection:
        return queries.known_workers(connection, after)


def models(services: Services) -> list[LoadedModel]:
    """Each model that some live worker has loaded, once, in a stable order."""
    found = {model.name: model for worker in live(services) for model in worker.models}
    return [found[name] for name in sorted(found)]


def configured(settings: Settings, capability: Capability) -> list[str]:
    """The models that are meant to serve, those that come first in front."""
    hearing = (settings.chat_model, settings.stt_model)
    names = hearing if capability is Capability.STT else (settings.tts_model,)
    return [name for name in names if name]


def missing(services: Services) -> list[Capability]:
    """Configured capabilities that no live worker offers."""
    workers = live(services)
    return [
        capability
        for capability in Capability
        if configured(services.settings, capability)
        and not any(worker.offers(capability) for worker in workers)
    ]


def require(services: Services, kind: Kind) -> None:
    """Raise the 501 of a kind that is not served here, or the 503 of one that is not up yet."""
    capability, known = kind.capability, _known(services)
    if any(worker.serves(kind) for worker in known):
        return
    able = any(worker.offers(capability) for worker in known)  # to hear, but not to translate
    if configured(services.settings, capability) and not able:
        raise Busy(
            f"No live worker for {capability} yet. Please try again later.",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    if kind is Kind.TRANSCRIPTION:
        raise AudioNotSupported
    raise KindNotLoaded(f"audio model kind not loaded: {capability}")
