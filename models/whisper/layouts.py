"""Reads the three checkpoint layouts of Whisper into one: tensors under their native MLX names.

Knows the names and shapes of files; what becomes of the tensors is weights.py's business. Tensors
keep the type that they have in the file and are read when they are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.backend import mx
from models.base import CheckpointError
from models.whisper import ctranslate2

Arrays = dict[str, mx.array]
Tensor = mx.array | ctranslate2.Stored
Tensors = dict[str, Tensor]
NATIVE_FILES = ("weights.safetensors", "model.safetensors", "weights.npz")
INDEX = "model.safetensors.index.json"

# Hugging Face names -> native ones, longest first where one holds another
HF_RENAMES = (
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.self_attn\.", ".attn."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp1."),
    (r"\.fc2\.", ".mlp2."),
    (r"^encoder\.layer_norm\.", "encoder.ln_post."),
    (r"^decoder\.layer_norm\.", "decoder.ln."),
    (r"^decoder\.embed_tokens\.", "decoder.token_embedding."),
    (r"\.embed_positions\.weight$", ".positional_embedding"),
)
OPENAI_RENAMES = ((r"\.mlp\.0\.", ".mlp1."), (r"\.mlp\.2\.", ".mlp2."))
UNUSED = {"proj_out.weight", "alignment_heads", "encoder._positional_embedding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    layout: str
    """``mlx``, ``huggingface`` or ``ctranslate2``."""
    files: tuple[Path, ...]
    """The weight files."""
    tensors: Tensors
    few_bits: bool = False
    """Whether its matrices were stored in 4 or 8 bits."""
    heads: tuple[int, int] | None = None
    """Attention heads of encoder and decoder, where the checkpoint says."""


def read(path: Path) -> Checkpoint:
    config = _json(path / "config.json")
    if (path / "model.bin").is_file():
        return _ctranslate2(path)
    if config.get("model_type") == "whisper" and "d_model" in config:
        return _hugging_face(path, config)
    return _native(path, config)


def array(tensor: Tensor) -> mx.array:
    """The tensor's values, read now if they were not before."""
    return tensor if isinstance(tensor, mx.array) else mx.array(tensor.read())


def is_half(tensor: Tensor) -> bool:
    if isinstance(tensor, ctranslate2.Stored):
        return tensor.half
    return tensor.dtype in {mx.float16, mx.bfloat16}


def _ctranslate2(path: Path) -> Checkpoint:
    file = path / "model.bin"
    model = ctranslate2.read(file)
    return Checkpoint(
        layout="ctranslate2", files=(file,), tensors={**model.tensors}, heads=model.heads
    )


def _hugging_face(path: Path, config: dict[str, Any]) -> Checkpoint:
    files = tuple(_shards(path))
    tensors: Arrays = {}
    for file in files:
        tensors |= {rename(name, HF_RENAMES): value for name, value in load_arrays(file).items()}
    for name in ("encoder.conv1.weight", "encoder.conv2.weight"):
        if name in tensors and tensors[name].ndim == 3:
            tensors[name] = tensors[name].swapaxes(1, 2)  # torch: output, input, tap
    heads = config.get("encoder_attention_heads"), config.get("decoder_attention_heads")
    return Checkpoint(
        layout="huggingface", files=files, tensors=without_unused(tensors), heads=_pair(heads)
    )


def _native(path: Path, config: dict[str, Any]) -> Checkpoint:
    file = next((path / name for name in NATIVE_FILES if (path / name).is_file()), None)
    if file is None:
        known = ", ".join(("model.bin", *NATIVE_FILES, INDEX))
        raise CheckpointError(f"{path} has no weights: none of {known}")
    tensors = {rename(name, OPENAI_RENAMES): value for name, value in load_arrays(file).items()}
    few_bits = "quantization" in config
    if few_bits:
        tensors = _dequantised(tensors, **config["quantization"])
    heads = config.get("n_audio_head"), config.get("n_text_head")
    return Checkpoint(
        layout="mlx",
        files=(file,),
        tensors=without_unused(tensors),
        few_bits=few_bits,
        heads=_pair(heads),
    )


def _shards(path: Path) -> Iterator[Path]:
    if not (path / INDEX).is_file():
        yield path / "model.safetensors"
        return
    names = sorted(set(_json(path / INDEX).get("weight_map", {}).values()))
    for name in names:
        if Path(name).name != name:
            raise CheckpointError(f"{path / INDEX} names {name!r}, which is no file name")
        yield path / name


def load_arrays(file: Path) -> Arrays:
    try:
        arrays = mx.load(str(file))
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{file}: {error}") from error
    if not isinstance(arrays, dict):
        raise CheckpointError(f"{file} holds one array and not named tensors")
    return arrays


def _dequantised(tensors: Arrays, *, group_size: int, bits: int, **_: object) -> Arrays:
    """Tensors of an MLX checkpoint in 4 or 8 bits, as float32."""
    plain = {n: t for n, t in tensors.items() if not n.endswith((".scales", ".biases"))}
    for name in [name for name in tensors if name.endswith(".scales")]:
        weight = name.removesuffix(".scales") + ".weight"
        biases = tensors.get(name.removesuffix(".scales") + ".biases")
        plain[weight] = mx.dequantize(
            tensors[weight], tensors[name], biases, group_size=group_size, bits=bits
        )
    return plain


def without_unused(tensors: Arrays) -> Tensors:
    return {name: value for name, value in tensors.items() if name not in UNUSED}


def rename(name: str, renames: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in renames:
        name = re.sub(pattern, replacement, name)
    return name


def _pair(heads: tuple[int | None, int | None]) -> tuple[int, int] | None:
    encoder, decoder = heads
    return None if encoder is None or decoder is None else (encoder, decoder)


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} is not a JSON object")
    return content
