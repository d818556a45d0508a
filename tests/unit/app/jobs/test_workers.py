"""What the service refuses since no worker does it, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.clock import now
from app.db import queries
from app.db.records import LoadedModel, Worker
from app.errors import AudioNotSupported, Busy, KindNotLoaded
from app.jobs.services import Services
from app.jobs.workers import require
from app.states import Capability, Kind


def start(services: Services, **model: Any) -> None:
    loaded = LoadedModel(**{"name": "m", "family": "f", "capabilities": (Capability.STT,), **model})
    moment = now()
    worker = Worker(
        id="w",
        host="h",
        pid=1,
        state="ready",
        started_at=moment,
        seen_at=moment,
        models=(loaded,),
    )
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)


def test_whisper_transcribes_and_translates(open_services: Callable[..., Services]) -> None:
    services = open_services()
    start(services)
    require(services, Kind.TRANSCRIPTION)
    require(services, Kind.TRANSLATION)


@pytest.mark.parametrize(
    "models", [{"stt_model": "gemma"}, {"chat_model": "gemma", "stt_model": ""}]
)
def test_a_chat_model_alone_does_not_translate(
    open_services: Callable[..., Services], models: dict[str, str]
) -> None:
    services = open_services(**models)
    start(services, translates=False)
    require(services, Kind.TRANSCRIPTION)
    with pytest.raises(KindNotLoaded, match=r"^audio model kind not loaded: stt$"):
        require(services, Kind.TRANSLATION)


def test_nothing_is_configured(open_services: Callable[..., Services]) -> None:
    services = open_services(stt_model="", tts_model="")
    with pytest.raises(AudioNotSupported):
        require(services, Kind.TRANSCRIPTION)
    with pytest.raises(KindNotLoaded, match=r"^audio model kind not loaded: stt$"):
        require(services, Kind.TRANSLATION)
    with pytest.raises(KindNotLoaded, match=r"^audio model kind not loaded: tts$"):
        require(services, Kind.SPEECH)


@pytest.mark.parametrize("name", ["chat_model", "stt_model"])
def test_what_is_configured_may_come_up(open_services: Callable[..., Services], name: str) -> None:
    services = open_services(**{"stt_model": "", "tts_model": "", name: "m"})
    with pytest.raises(Busy):
        require(services, Kind.TRANSCRIPTION)
