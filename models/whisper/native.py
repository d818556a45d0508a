"""Writes a Whisper checkpoint in MLX's native layout, whole or with its matrices in a few bits.

Any layout is read. What is written loads here and in mlx-whisper; a few bits are ``mlx.nn``'s
quantisation: an offset and a scale for each group of values in a row.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from models.backend import mx
from models.whisper.layouts import Arrays, Tensors, array, read
from models.whisper.weights import check, measure

GROUP = 64  # values with a scale and an offset of their own, as in the published ones
COMPUTED = "encoder.positional_embedding"  # mlx-whisper takes none


def write(source: Path, target: Path, *, bits: int | None = None) -> None:
    """``target`` is an empty directory; without ``bits`` the values stay as they are."""
    checkpoint = read(source)
    sizes = measure(checkpoint.tensors, checkpoint.heads, source)
    check(checkpoint.tensors, sizes, source)
    config = asdict(sizes)
    if bits:
        config["quantization"] = {"group_size": GROUP, "bits": bits}
    tensors = dict(_stored(checkpoint.tensors, bits))
    mx.save_safetensors(str(target / "weights.safetensors"), tensors)
    (target / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")


def _stored(tensors: Tensors, bits: int | None) -> Iterator[tuple[str, mx.array]]:
    for name, tensor in tensors.items():
        if name == COMPUTED:
            continue
        value = array(tensor)
        if bits and _is_matrix(name, value):
            yield from _quantised(name.removesuffix(".weight"), value, bits).items()
        else:
            yield name, value.astype(mx.float16) if bits else value


def _is_matrix(name: str, value: mx.array) -> bool:
    return name.endswith(".weight") and value.ndim == 2 and value.shape[1] % GROUP == 0


def _quantised(name: str, value: mx.array, bits: int) -> Arrays:
    parts = mx.quantize(value.astype(mx.float16), group_size=GROUP, bits=bits)
    return dict(zip((f"{name}.weight", f"{name}.scales", f"{name}.biases"), parts, strict=True))
