"""What is loaded right now: models in OpenAI's list shape, and voices."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from app.api.context import ServicesDep
from app.jobs import workers

router = APIRouter(tags=["catalog"])


@router.get("/v1/models")
def list_models(services: ServicesDep) -> dict[str, Any]:
    started = {
        model.name: int(worker.started_at.timestamp())
        for worker in workers.live(services)
        for model in worker.models
    }
    data = [
        {
            "id": model.name,
            "object": "model",
            "created": started[model.name],
            "owned_by": model.family,
            "capabilities": list(model.capabilities),
            "multilingual": model.multilingual,
        }
        for model in workers.models(services)
    ]
    return {"object": "list", "data": data}


@router.get("/v1/audio/voices")
def list_voices(services: ServicesDep) -> dict[str, Any]:
    voices = {voice for model in workers.models(services) for voice in model.voices}
    return {"object": "list", "voices": sorted(voices)}
