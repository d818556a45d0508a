"""What is loaded right now: models in OpenAI's list shape, and voices."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.context import ServicesDep
from app.api.openapi import errors
from app.api.schemas import Model, ModelList, VoiceList
from app.errors import NotFound
from app.jobs import workers
from app.jobs.services import Services

router = APIRouter(tags=["catalog"])


@router.get("/v1/models")
def list_models(services: ServicesDep) -> ModelList:
    """The models that live workers have loaded."""
    return ModelList(data=_models(services))


@router.get("/v1/models/{model_id:path}", responses=errors(404))
def get_model(services: ServicesDep, model_id: str) -> Model:
    for model in _models(services):
        if model.id == model_id:
            return model
    raise NotFound("No live worker has loaded this model.", param="model")


@router.get("/v1/audio/voices")
def list_voices(services: ServicesDep) -> VoiceList:
    """The names that `voice` may have in a speech request."""
    voices = {voice for model in workers.models(services) for voice in model.voices}
    return VoiceList(voices=sorted(voices))


def _models(services: Services) -> list[Model]:
    found = {
        model.name: Model(
            id=model.name,
            created=int(worker.started_at.timestamp()),
            owned_by=model.family,
            capabilities=list(model.capabilities),
            multilingual=model.multilingual,
        )
        for worker in workers.live(services)
        for model in worker.models
    }
    return [found[name] for name in sorted(found)]
