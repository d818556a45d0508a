"""Reads a CTranslate2 ``model.bin`` (version 6) of Whisper under native MLX tensor names.

Only the headers are read at first; a tensor's rows are read when they are asked for, so that no
second copy of the weights is ever in memory. Weights may be float32, float16, bfloat16, or int8
with a scale for each output row (value = q / scale).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.base import CheckpointError

VERSION = 6
INT8, BFLOAT16 = 1, 5
DTYPES = {0: "<f4", INT8: "<i1", 2: "<i2", 3: "<i4", 4: "<f2", BFLOAT16: "<u2"}

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
class Stored:
    """A tensor in the file."""

    file: Path
    offset: int
    """Bytes from the start of the file."""
    kind: int
    stored_shape: tuple[int, ...]
    scale: Stored | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """A convolution is stored as output, input, tap, and read as output, tap, input."""
        shape = self.stored_shape
        return (shape[0], shape[2], shape[1]) if len(shape) == 3 else shape

    @property
    def ndim(self) -> int:
        return len(self.stored_shape)

    @property
    def half(self) -> bool:
        return self.kind not in {0, INT8}

    def part(self, index: int, count: int) -> Stored:
        """One of ``count`` equal runs of rows."""
        rows = self.stored_shape[0] // count
        shape = (rows, *self.stored_shape[1:])
        size = prod(shape) * np.dtype(DTYPES[self.kind]).itemsize
        scale = self.scale and self.scale.part(index, count)
        return replace(self, offset=self.offset + index * size, stored_shape=shape, scale=scale)

    def read(self) -> NDArray[np.generic]:
        values = self._raw()
        if self.scale is not None:
            scale = self.scale.read().astype(np.float32)
            values = values.astype(np.float32) / scale.reshape(-1, *(1,) * (self.ndim - 1))
        return values.swapaxes(1, 2) if self.ndim == 3 else values

    def _raw(self) -> NDArray[np.generic]:
        kind, count = DTYPES[self.kind], prod(self.stored_shape)
        values = np.fromfile(self.file, kind, count, offset=self.offset)
        if self.kind == BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values.reshape(self.stored_shape)


Variables = dict[str, Stored]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    tensors: Variables
    heads: tuple[int, int] | None


def read(file: Path) -> Model:
    variables = read_variables(file)
    settings = {name: v for name, v in variables.items() if v.ndim == 0}
    weights = {name: v for name, v in variables.items() if v.ndim > 0}
    weights.pop("decoder/alignment_heads", None)
    return Model(tensors=dict(_native(weights, file)), heads=_heads(settings))


def read_variables(file: Path) -> Variables:
    try:
        with file.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            return _Reader(file, data).variables()
    except (OSError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} is no CTranslate2 model, or cut short: {error}") from error


class _Reader:
    """Walks over the headers."""

    def __init__(self, file: Path, data: mmap.mmap) -> None:
        self.file = file
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

    def _variable(self) -> tuple[str, Stored]:
        name = self._string()
        (rank,) = self._unpack("<B")
        shape = self._unpack(f"<{rank}I")
        kind, size = self._unpack("<BI")
        if kind not in DTYPES or size != prod(shape) * np.dtype(DTYPES[kind]).itemsize:
            raise ValueError(f"{name} has the type {kind} and {size} bytes for {shape}")
        stored = Stored(file=self.file, offset=self.position, kind=kind, stored_shape=shape)
        self.position += size
        return name, stored

    def _string(self) -> str:
        (length,) = self._unpack("<H")
        raw = self.data[self.position : self.position + length]
        self.position += length
        return raw.rstrip(b"\0").decode()

    def _unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values


def _heads(settings: Variables) -> tuple[int, int] | None:
    sides = [settings.get(f"{side}/num_heads") for side in ("encoder", "decoder")]
    found = [int(side.read()[()]) for side in sides if side is not None]
    return (found[0], found[1]) if len(found) == 2 else None


def _native(weights: Variables, file: Path) -> Iterator[tuple[str, Stored]]:
    for name, stored in weights.items():
        if name.endswith("_scale"):
            continue
        names = native_names(name)
        if not names:
            raise CheckpointError(f"{file} has a tensor this model does not: {name}")
        if stored.shape[0] % len(names):
            raise CheckpointError(
                f"{file}: {name} has {stored.shape[0]} rows for {len(names)} parts"
            )
        whole = replace(stored, scale=weights.get(f"{name}_scale"))
        for index, part in enumerate(names):
            if not part.endswith("attn.key.bias"):  # stacked with the others', and zero
                yield part, whole.part(index, len(names))


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
