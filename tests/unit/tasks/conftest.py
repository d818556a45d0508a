from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from app.clock import new_id, now
from app.db import queries
from app.db.records import Job, LoadedModel, Worker
from app.jobs.services import Services
from app.states import Capability, Kind
from app.storage import keys
from models.base import Capability as ModelCapability
from models.base import ModelInfo, Samples, TranscribeOptions, Utterance
from models.transcript import WindowTranscript
from tasks.draining import Draining
from tasks.runner import Runner
from tests.inprocess import add_job, close, make_services


@pytest.fixture
def open_services(tmp_path: Path) -> Iterator[Callable[..., Services]]:
    """Services with other settings than the defaults."""
    opened: list[Services] = []

    def build(**changes: Any) -> Services:
        opened.append(make_services(tmp_path / str(len(opened)), **changes))
        return opened[-1]

    yield build
    for services in opened:
        close(services)


@pytest.fixture
def services(open_services: Callable[..., Services]) -> Services:
    return open_services()


class Provider:
    """Hears the number of samples and says a tone; ``before`` is called before each window."""

    sample_rate = 16_000
    window_seconds = 30.0

    def __init__(self, name: str = "stub") -> None:
        self.info = ModelInfo(
            name=name, family="stub", capabilities=frozenset(ModelCapability), revision="1"
        )
        self.heard: list[int] = []
        self.said: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        return [self._hear(window, options) for window in windows]

    def _hear(self, window: Samples, options: TranscribeOptions) -> WindowTranscript:
        self.before()
        self.heard.append(len(window))
        return WindowTranscript(text=f" {len(window)}", language=options.language or "en")

    def plan_speech(self, text: str) -> list[Utterance]:
        return [Utterance(text=part, phonemes=part) for part in text.split(".") if part.strip()]

    def synthesize(
        self, utterances: Sequence[Utterance], *, voice: str | None, speed: float
    ) -> list[Samples]:
        return [self._say(item.text) for item in utterances]

    def _say(self, text: str) -> Samples:
        self.before()
        self.said.append(text)
        return np.full(160, 0.25, np.float32)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def make_runner(provider: Provider) -> Callable[..., Runner]:
    def build(services: Services, name: str = "wkr_1", **providers: Any) -> Runner:
        moment = now()
        loaded = LoadedModel(
            name="stub", family="stub", capabilities=tuple(Capability), revision="1"
        )
        worker = Worker(
            id=name,
            host="h",
            pid=1,
            state="ready",
            started_at=moment,
            seen_at=moment,
            models=(loaded,),
        )
        with services.database.writing() as connection:
            queries.put_worker(connection, worker)
        return Runner(
            services=services,
            worker=worker,
            providers={Kind(kind): model for kind, model in providers.items()}
            or dict.fromkeys(Kind, provider),
            draining=Draining(),
        )

    return build


@pytest.fixture
def add_recording() -> Callable[..., Job]:
    def build(services: Services, seconds: float, **values: Any) -> Job:
        file = io.BytesIO()
        tone = 0.3 * np.sin(np.arange(int(16_000 * seconds)) * 0.1)
        soundfile.write(file, tone, 16_000, format="WAV")
        file.seek(0)
        job_id = new_id("job")
        blob = services.store.put(keys.source(job_id), file, content_type="audio/wav")
        return add_job(
            services,
            id=job_id,
            kind=Kind.TRANSCRIPTION,
            input_key=blob.key,
            input_seconds=seconds,
            **values,
        )

    return build
