"""A chat checkpoint's network, as mlx-vlm's own classes build it, without the parts that see.

Owns what is read from the weight files and which of them, where settings are kept, and what is said
when any of it fails; knows no audio and no prompt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from models.backend import mx
from models.base import CheckpointError, InputRejected

MAX_POSITIONS = 32_768  # where config.json names no other
_GROUPS = ("text", "vision", "audio")
_SEEING = {"vision_tower", "mm_projector"}  # parts that never run here
_SEEN_WEIGHTS = re.compile(r"vision_tower\.|mm_projector\.|\.image_embed\.")


def text_setting(config: dict[str, Any], key: str, default: int) -> int:
    """Of the part that reads and writes, wherever a family keeps its settings."""
    thinker = config.get("thinker_config") or {}
    texts = (
        owner.get(name) for owner in (config, thinker) for name in ("text_config", "llm_config")
    )
    for holder in (*texts, config):
        if holder and key in holder:
            return int(holder[key])
    return default


def max_positions(config: dict[str, Any]) -> int:
    """The longest prompt and answer, in tokens."""
    return text_setting(config, "max_position_embeddings", MAX_POSITIONS)


@contextmanager
def loading(subject: object) -> Iterator[None]:
    """Whatever goes wrong inside as a CheckpointError about the subject.

    Networks, processors and templates are others' code, and may fail in any way.
    """
    try:
        yield
    except (CheckpointError, InputRejected) as error:
        raise CheckpointError(f"{subject}: {error}") from error
    except Exception as error:
        raise CheckpointError(f"{subject}: {error!r}") from error


def require_extra() -> None:
    try:
        import mlx_vlm  # noqa: F401 -- only whether it is there
    except ImportError as error:
        raise CheckpointError(
            f"chat models need the extra: pip install 'voxqueue[chat]' ({error})"
        ) from error


def load_network(path: Path) -> Any:
    """mlx-vlm's network without its eyes, which hold gigabytes and never see anything here."""
    from mlx_vlm import utils

    config = utils.load_config(path)
    parts, _ = utils.get_model_and_args(config)
    for group in _GROUPS:
        config.setdefault(f"{group}_config", {})
    settings = utils.update_module_configs(
        parts.ModelConfig.from_dict(config), parts, config, _GROUPS
    )
    network = parts.Model(settings)
    for name in _SEEING & network.keys():
        setattr(network, name, None)
    weights = _heard(path)
    for part in (network, network.language_model, getattr(network, "audio_tower", None)):
        weights = utils.sanitize_weights(part, weights)
    utils.load_model_weights(network, config, weights, path)
    return network


def _heard(path: Path) -> dict[str, mx.array]:
    """The weights of all shards, read when they are used; not those of the eyes."""
    weights: dict[str, mx.array] = {}
    for file in sorted(path.glob("*.safetensors")):
        weights |= cast("dict[str, mx.array]", mx.load(str(file)))
    if not weights:
        raise CheckpointError("there is no .safetensors file")
    return {name: value for name, value in weights.items() if not _SEEN_WEIGHTS.search(name)}


def revision(path: Path) -> str:
    """A hash of the small files, and of the weight files' names and sizes."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()):
        if file.suffix in (".json", ".jinja"):
            digest.update(file.name.encode() + file.read_bytes())
        elif file.suffix == ".safetensors":
            digest.update(f"{file.name} {file.stat().st_size}".encode())
    return digest.hexdigest()
