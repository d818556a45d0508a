"""Which family a checkpoint belongs to, and its loading.

Owns the one table of model families; a third-party package adds its own through the entry point
group ``voxqueue.models``. It knows families by their config.json only, and imports the code of a
family, and with it MLX, no sooner than ``load``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from models.base import CheckpointError, SpeechProvider
from models.catalog import checkpoint_path

ENTRY_POINT_GROUP = "voxqueue.models"

Config = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of model: how its checkpoints are told, and who loads them."""

    name: str
    provider: str
    """A module with ``load(path: Path, name: str) -> SpeechProvider``."""
    claims: Callable[[Path, Config], bool]
    """Whether a checkpoint, given by its directory and its config.json, is of this family."""


def _is_whisper(_path: Path, config: Config) -> bool:
    return (
        config.get("model_type") == "whisper"
        or {"n_audio_state", "n_text_state"} <= config.keys()  # native: its sizes
        or {"suppress_ids", "suppress_ids_begin"} <= config.keys()  # CTranslate2: no sizes in it
    )


def _is_kokoro(path: Path, config: Config) -> bool:
    return "istftnet" in config or (path / "kokoro-v1_0.safetensors").is_file()


def _is_chat_audio(_path: Path, config: Config) -> bool:
    return config.get("model_type") in ("gemma3n", "phi4mm", "phi4_multimodal")


def _hears_otherwise(_path: Path, config: Config) -> bool:
    """Whether a tower for audio is described, wherever mlx-vlm's families have it."""
    owners = (config, config.get("thinker_config"))
    keys = ("audio_config", "sound_config")
    return any(isinstance(owner, dict) and owner.get(key) for owner in owners for key in keys)


FAMILIES = (
    # For transcription, a chat model that hears comes before Whisper.
    Family(name="chat_audio", provider="models.chat_audio", claims=_is_chat_audio),
    Family(name="whisper", provider="models.whisper.provider", claims=_is_whisper),
    Family(name="kokoro", provider="models.kokoro.provider", claims=_is_kokoro),
)
# Whether mlx-vlm loads such a model shows when it does, so everybody else is asked before.
LAST = Family(name="chat_vlm", provider="models.chat_vlm", claims=_hears_otherwise)


def detect(path: Path) -> str:
    """The name of the family that claims the checkpoint at path, else a CheckpointError."""
    return _family(path).name


def load(name_or_path: str | Path) -> SpeechProvider:
    """Load a pulled model by its name, or the checkpoint in a directory. Imports MLX."""
    path = checkpoint_path(name_or_path)
    provider = import_module(_family(path).provider)
    return cast("SpeechProvider", provider.load(path, path.name))


def _family(path: Path) -> Family:
    config = _config(path)
    for family in _families():
        if family.claims(path, config):
            return family
    known = ", ".join(family.name for family in _families())
    raise CheckpointError(f"{path / 'config.json'} describes no known model family ({known})")


def _families() -> Iterator[Family]:
    """The built-in families first: entry points are loaded only for what those do not claim."""
    yield from FAMILIES
    for point in entry_points(group=ENTRY_POINT_GROUP):
        yield _plugin(point.load(), point.value)
    yield LAST


def _plugin(family: object, origin: str) -> Family:
    if isinstance(family, Family):
        return family
    raise CheckpointError(f"entry point {origin} in {ENTRY_POINT_GROUP} is not a models.Family")


def _config(path: Path) -> Config:
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{file} is not a JSON object")
    return config
