"""Reads a CTranslate2 ``model.bin`` (version 6) of Whisper under native MLX tensor names.

The file is mapped into memory and read as tensors are used. Weights may be float32, float16,
bfloat16, or int8 with a scale for each output row (value = q / scale).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.backend import mx
from models.base import CheckpointError

VERSION = 6
INT8, BFLOAT16 = 1, 5
DTYPES = {0: "<f4", INT8: "<i1", 2: "<i2", 3: "<i4", 4: "<f2", BFLOAT16: "<u2"}
Variables = dict[str, NDArray[np.generic]]

ENDS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
# (part of a layer's name, native names of what its rows stack)
ENCODER_PARTS = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "self_attention/linear_1": ("attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp1",),
    "ffn/linear_1": ("mlp2",),
}
DECODER_PARTS = ENCODER_PARTS | {
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
}
PARTS = {"encoder": ENCODER_PARTS, "decoder": DECODER_PARTS}
SINGLE = {
    "encoder/conv1/weight": "encoder.conv1.weight",
    "encoder/conv1/bias": "encoder.conv1.bias",
    "encoder/conv2/weight": "encoder.conv2.weight",
    "encoder/conv2/bias": "encoder.conv2.bias",
    "encoder/position_encodings/encodings": "encoder.positional_embedding",
    "encoder/layer_norm/gamma": "encoder.ln_post.weight",
    "encoder/layer_norm/beta": "encoder.ln_post.bias",
    "decoder/embeddings/weight": "decoder.token_embedding.weight",
    "decoder/position_encodings/encodings": "decoder.positional_embedding",
    "decoder/layer_norm/gamma": "decoder.ln.weight",
    "decoder/layer_norm/beta": "decoder.ln.bias",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    tensors: dict[str, mx.array]
    heads: tuple[int, int] | None


def read(file: Path) -> Model:
    variables = read_variables(file)
    settings = {name: v for name, v in variables.items() if v.ndim == 0}
    weights = {name: v for name, v in variables.items() if v.ndim > 0}
    weights.pop("decoder/alignment_heads", None)
    tensors = dict(_native(weights, file))
    heads = [settings.get(f"{side}/num_heads") for side in ("encoder", "decoder")]
    encoder, decoder = heads
    if encoder is None or decoder is None:
        return Model(tensors=tensors, heads=None)
    return Model(tensors=tensors, heads=(int(encoder), int(decoder)))


def read_variables(file: Path) -> Variables:
    try:
        with file.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return _Reader(data).variables()
    except (OSError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} is no CTranslate2 model, or cut short: {error}") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.position = 0

    def variables(self) -> Variables:
        (version,) = self._unpack("<I")
        if version != VERSION:
            raise ValueError(f"version {version}, expected {VERSION}")
        kind = self._string()
        if kind != "WhisperSpec":
            raise ValueError(f"a {kind}, expected a WhisperSpec")
        _revision, count = self._unpack("<II")
        found = dict(self._variable() for _ in range(count))
        (aliases,) = self._unpack("<I")
        for _ in range(aliases):
            alias, name = self._string(), self._string()
            if alias != "decoder/projection/weight":  # tied to the embedding in every Whisper
                found[alias] = found[name]
        return found

    def _variable(self) -> tuple[str, NDArray[np.generic]]:
        name = self._string()
        (rank,) = self._unpack("<B")
        shape = self._unpack(f"<{rank}I")
        kind, size = self._unpack("<BI")
        if kind not in DTYPES:
            raise ValueError(f"{name} has the unknown type {kind}")
        values = np.frombuffer(self.data, np.uint8, count=size, offset=self.position)
        self.position += size
        array = values.view(DTYPES[kind]).reshape(shape)
        return name, _from_bfloat16(array) if kind == BFLOAT16 else array

    def _string(self) -> str:
        (length,) = self._unpack("<H")
        raw = self.data[self.position : self.position + length]
        self.position += length
        return raw.rstrip(b"\0").decode()

    def _unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values


def _from_bfloat16(bits: NDArray[np.generic]) -> NDArray[np.generic]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _native(weights: Variables, file: Path) -> Iterator[tuple[str, mx.array]]:
    for name, value in weights.items():
        if name.endswith("_scale"):
            continue
        names = native_names(name)
        if not names:
            raise CheckpointError(f"{file} has a tensor this model does not: {name}")
        if len(value) % len(names):
            raise CheckpointError(f"{file}: {name} has {len(value)} rows, not {len(names)} parts")
        plain = _dequantised(value, weights.get(f"{name}_scale"))
        for part, rows in zip(names, np.split(plain, len(names)), strict=True):
            if part.endswith("attn.key.bias"):
                continue  # stacked with the others', and zero
            yield part, mx.array(rows.swapaxes(1, 2) if rows.ndim == 3 else rows)


def native_names(name: str) -> tuple[str, ...]:
    """What the rows of a variable stack; () for a name that is not Whisper's."""
    if name in SINGLE:
        return (SINGLE[name],)
    side, _, rest = name.partition("/")
    layer, _, rest = rest.partition("/")
    part, _, end = rest.rpartition("/")
    stacked = PARTS.get(side, {}).get(part, ())
    number = layer.removeprefix("layer_")
    if not number.isdigit() or end not in ENDS:
        return ()
    return tuple(f"{side}.blocks.{number}.{module}.{ENDS[end]}" for module in stacked)


def _dequantised(
    value: NDArray[np.generic], scale: NDArray[np.generic] | None
) -> NDArray[np.generic]:
    if scale is None:
        return value
    rows = scale.astype(np.float32).reshape(-1, *(1,) * (value.ndim - 1))
    return value.astype(np.float32) / rows
