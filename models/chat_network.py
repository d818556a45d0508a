"""A chat checkpoint's network, as mlx-vlm's own classes build it, without the parts that see.

Owns what is read from the weight files and which of them; knows no audio and no prompt.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, cast

from models.backend import mx
from models.base import CheckpointError

NEEDS_EXTRA = "chat models need the extra: pip install 'voxqueue[chat]'"
MAX_POSITIONS = 32_768  # where config.json names no other
_GROUPS = ("text", "vision", "audio")
_SEEING = {"vision_tower", "mm_projector"}  # parts that never run here
_SEEN_WEIGHTS = re.compile(r"vision_tower\.|mm_projector\.|\.image_embed\.")


def max_positions(config: dict[str, Any]) -> int:
    """The longest prompt and answer, in tokens."""
    thinker = config.get("thinker_config") or {}
    texts = (owner.get(key) for owner in (config, thinker) for key in ("text_config", "llm_config"))
    for holder in (*texts, config):
        if holder and "max_position_embeddings" in holder:
            return int(holder["max_position_embeddings"])
    return MAX_POSITIONS


def load_network(path: Path) -> Any:
    """mlx-vlm's network without its eyes, which hold gigabytes and never see anything here."""
    try:
        from mlx_vlm import utils
    except ImportError as error:
        raise CheckpointError(f"{path}: {NEEDS_EXTRA} ({error})") from error
    try:
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
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: {error!r}") from error
    return network


def _heard(path: Path) -> dict[str, mx.array]:
    """The weights of all shards, read when they are used; not those of the eyes."""
    weights: dict[str, mx.array] = {}
    for file in sorted(path.glob("*.safetensors")):
        weights |= cast("dict[str, mx.array]", mx.load(str(file)))
    if not weights:
        raise CheckpointError(f"{path} holds no .safetensors file")
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
