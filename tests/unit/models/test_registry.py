from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from models import registry
from models.base import CheckpointError

WHISPER_CONFIGS = {
    "hugging face": {"model_type": "whisper", "d_model": 512},
    "native": {"n_mels": 80, "n_audio_state": 512, "n_text_state": 512},
    "ctranslate2": {"suppress_ids": [], "suppress_ids_begin": [220], "lang_ids": []},
}


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: [])


@pytest.fixture
def checkpoint(tmp_path):
    def write(config, *files):
        (tmp_path / "config.json").write_text(
            config if isinstance(config, str) else json.dumps(config)
        )
        for name in files:
            (tmp_path / name).touch()
        return tmp_path

    return write


@pytest.fixture
def plugin(monkeypatch, no_plugins):
    """An installed third-party package with an entry point that gives the object."""

    def install(family):
        module = ModuleType("some_plugin")
        module.family = family
        monkeypatch.setitem(sys.modules, "some_plugin", module)
        point = EntryPoint("parrot", "some_plugin:family", registry.ENTRY_POINT_GROUP)
        monkeypatch.setattr(registry, "entry_points", lambda group: [point])

    return install


def parrot(provider="some_provider"):
    return registry.Family(
        name="parrot", provider=provider, claims=lambda _path, config: "feathers" in config
    )


@pytest.mark.parametrize("config", WHISPER_CONFIGS.values(), ids=WHISPER_CONFIGS)
def test_detects_whisper_in_each_layout(checkpoint, config):
    assert registry.detect(checkpoint(config)) == "whisper"


def test_detects_kokoro_by_its_config(checkpoint):
    assert registry.detect(checkpoint({"istftnet": {}, "vocab": {}})) == "kokoro"


def test_detects_kokoro_by_its_weights(checkpoint):
    assert registry.detect(checkpoint({}, "kokoro-v1_0.safetensors")) == "kokoro"


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "gemma3n", "audio_config": {"x": 1}}, "chat_audio"),
        ({"model_type": "gemma4", "audio_config": {"x": 1}}, "chat_vlm"),
        ({"model_type": "nemotron_h_omni", "sound_config": {"x": 1}}, "chat_vlm"),
        ({"model_type": "x", "thinker_config": {"audio_config": {"x": 1}}}, "chat_vlm"),
        ({"model_type": "whisper", "audio_config": {"x": 1}}, "whisper"),
    ],
)
def test_detects_chat_models_by_their_towers(checkpoint, config, family):
    assert registry.detect(checkpoint(config)) == family


@pytest.mark.parametrize(
    "config",
    [
        {"audio_config": None},
        {"audio_config": {}, "sound_config": None, "thinker_config": {"audio_config": {}}},
        {"thinker_config": ["audio_config"]},
    ],
)
def test_a_tower_that_is_not_described_is_none(checkpoint, config):
    with pytest.raises(CheckpointError, match="no known model family"):
        registry.detect(checkpoint({"model_type": "gemma4", **config}))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "llama"},
            r"no known model family \(chat_audio, whisper, kokoro, chat_vlm\)",
        ),
        ("{", "config.json is not JSON"),
        ("[]", "config.json is not a JSON object"),
    ],
)
def test_another_config_is_a_clear_error(checkpoint, config, message):
    with pytest.raises(CheckpointError, match=message):
        registry.detect(checkpoint(config))


def test_no_config_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"config.json: No such file"):
        registry.detect(tmp_path)


def test_a_plugin_adds_a_family(checkpoint, plugin):
    plugin(parrot())
    assert registry.detect(checkpoint({"feathers": "green"})) == "parrot"


def test_a_plugin_is_asked_before_mlx_vlm(checkpoint, plugin):
    plugin(parrot())
    assert registry.detect(checkpoint({"feathers": "green", "audio_config": {"x": 1}})) == "parrot"


def test_a_plugin_that_is_no_family_is_named(checkpoint, plugin):
    plugin("not a family")
    with pytest.raises(CheckpointError, match=r"entry point some_plugin:family"):
        registry.detect(checkpoint({"feathers": "green"}))


def test_load_hands_path_and_name_to_the_provider(checkpoint, plugin, monkeypatch):
    provider = ModuleType("some_provider")
    provider.load = lambda path, name: (path, name)
    monkeypatch.setitem(sys.modules, "some_provider", provider)
    plugin(parrot())
    path = checkpoint({"feathers": "green"})
    assert registry.load(path) == (path, path.name)


def test_load_of_an_unknown_model_is_a_clear_error():
    with pytest.raises(CheckpointError, match="neither a directory nor a model"):
        registry.load("no-such-model")
