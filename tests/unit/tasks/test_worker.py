"""Which of the configured models does which kind of job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings import Settings
from app.states import Capability, Kind
from models import registry
from models.base import Capability as ModelCapability
from models.base import CheckpointError, SpeechProvider
from tasks.worker import describe, load_models


@pytest.fixture
def load(
    provider: SpeechProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., dict[Kind, str]]:
    hears = frozenset({ModelCapability.STT})
    known = {
        "chat": replace(provider.info, name="chat", capabilities=hears, translates=False),
        "whisper": replace(provider.info, name="whisper", capabilities=hears),
        "kokoro": replace(
            provider.info, name="kokoro", capabilities=frozenset({ModelCapability.TTS})
        ),
    }

    def open_model(name: str) -> SpeechProvider:
        if name not in known:
            raise CheckpointError(name)
        found = type(provider)(name)
        found.info = known[name]
        return found

    monkeypatch.setattr(registry, "load", open_model)

    def build(*wanted: Capability, **models: str) -> dict[Kind, str]:
        names = {"stt_model": "", "tts_model": "", **models}
        found = load_models(Settings(data_dir=tmp_path, **names), wanted or tuple(Capability))
        reported = {model.name: model for model in describe("w", "ready", found).models}
        assert all(reported[model.info.name].serves(kind) for kind, model in found.items())
        return {kind: model.info.name for kind, model in found.items()}

    return build


def test_a_chat_model_transcribes_before_whisper_which_translates(load) -> None:
    assert load(chat_model="chat", stt_model="whisper", tts_model="kokoro") == {
        Kind.TRANSCRIPTION: "chat",
        Kind.TRANSLATION: "whisper",
        Kind.SPEECH: "kokoro",
    }


def test_a_chat_model_alone_does_not_translate(load) -> None:
    assert load(chat_model="chat") == load(stt_model="chat") == {Kind.TRANSCRIPTION: "chat"}


def test_whisper_alone_does_both(load) -> None:
    assert load(stt_model="whisper") == dict.fromkeys(
        (Kind.TRANSCRIPTION, Kind.TRANSLATION), "whisper"
    )


def test_a_model_that_does_not_load_leaves_its_place_to_the_next(load) -> None:
    assert load(chat_model="broken", stt_model="whisper")[Kind.TRANSCRIPTION] == "whisper"
    assert load(chat_model="broken", stt_model="broken") == {}


def test_a_worker_loads_only_what_it_is_for(load) -> None:
    models = {"chat_model": "chat", "stt_model": "whisper", "tts_model": "kokoro"}
    assert load(Capability.TTS, **models) == {Kind.SPEECH: "kokoro"}


def refuse(reason: str) -> Callable[[str], SpeechProvider]:
    def load_model(_name: str) -> SpeechProvider:
        raise CheckpointError(reason)

    return load_model


@pytest.mark.parametrize(
    ("name", "reason", "told"),
    [
        (
            "whisper-base",
            "whisper-base is not at /m: run `voxqueue models pull whisper-base`",
            "whisper-base is not at /m: run `voxqueue models pull whisper-base`, then start again",
        ),
        (
            "whisper-base",
            "model.bin is cut short",
            "model.bin is cut short; run `voxqueue models pull --force whisper-base` or name another model, then start again",
        ),
        (
            "/my/model",
            "no config.json\nat all",
            "no config.json at all; mend it or name another model, then start again",
        ),
    ],
)
def test_a_model_that_does_not_load_is_one_plain_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    reason: str,
    told: str,
) -> None:
    monkeypatch.setattr(registry, "load", refuse(reason))
    assert load_models(Settings(stt_model=name, tts_model=""), [Capability.STT]) == {}
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("voxqueue:")]
    assert lines == [f"voxqueue: {name} (stt) does not load: {told}"]
