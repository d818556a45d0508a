"""From a checkpoint directory to a network: sizes, checks, and the algebra done once at load.

The sizes are read from the tensors alone, so that every Whisper from tiny to large-v3-turbo loads.
On a CPU everything is float32 (its half-precision products are 60 times slower); a GPU keeps
float16. Folding is done in float32 either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.backend import mx, on_cpu, ops
from models.backend.int8 import AVAILABLE, Int8Matrix
from models.backend.screen import Screen
from models.base import CheckpointError
from models.whisper.layouts import Tensors, array, is_half, read
from models.whisper.network import (
    Convolution,
    CrossAttention,
    Decoder,
    DecoderLayer,
    Dimensions,
    Encoder,
    EncoderLayer,
    Linear,
    Mlp,
    SelfAttention,
    Whisper,
)

HEAD_SIZE = 64  # of every published Whisper; used where a checkpoint does not say its heads
MAX_NAMED = 8  # tensors that an error lists
AUDIO_POSITIONS = 1500  # of a 30-s window, where the checkpoint does not carry its sinusoids
Shape = tuple[int, ...]


def load(path: Path) -> tuple[Whisper, str, tuple[Path, ...]]:
    """The network, the name of the layout it was found in, and the weight files."""
    checkpoint = read(path)
    dimensions = measure(checkpoint.tensors, checkpoint.heads, path)
    check(checkpoint.tensors, dimensions, path)
    builder = Builder(checkpoint.tensors, dimensions, few_bits=checkpoint.few_bits)
    return builder.whisper(), checkpoint.layout, checkpoint.files


def measure(tensors: Tensors, heads: tuple[int, int] | None, path: Path) -> Dimensions:
    """Sizes by the shapes of the tensors."""
    conv = _shape(tensors, "encoder.conv1.weight", 3, path)
    tokens = _shape(tensors, "decoder.token_embedding.weight", 2, path)
    text_ctx, _ = _shape(tensors, "decoder.positional_embedding", 2, path)
    positions = tensors.get("encoder.positional_embedding")
    audio_head, text_head = heads or (conv[0] // HEAD_SIZE, tokens[1] // HEAD_SIZE)
    return Dimensions(
        n_mels=conv[2],
        n_audio_ctx=AUDIO_POSITIONS if positions is None else positions.shape[0],
        n_audio_state=conv[0],
        n_audio_head=audio_head,
        n_audio_layer=_layers(tensors, "encoder"),
        n_vocab=tokens[0],
        n_text_ctx=text_ctx,
        n_text_state=tokens[1],
        n_text_head=text_head,
        n_text_layer=_layers(tensors, "decoder"),
    )


def check(tensors: Tensors, dimensions: Dimensions, path: Path) -> None:
    """Every expected tensor is there in its shape, and no other; CheckpointError names the rest."""
    expected = dict(expected_shapes(dimensions))
    optional = {"encoder.positional_embedding"}
    _refuse("lacks", sorted(expected.keys() - tensors.keys() - optional), path)
    _refuse("has unknown", sorted(tensors.keys() - expected.keys()), path)
    wrong = [
        f"{name} {tensors[name].shape}, not {shape}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    _refuse("has wrong shapes in", wrong, path)


def expected_shapes(dimensions: Dimensions) -> Iterator[tuple[str, Shape]]:
    audio, text = dimensions.n_audio_state, dimensions.n_text_state
    yield "encoder.conv1.weight", (audio, 3, dimensions.n_mels)
    yield "encoder.conv2.weight", (audio, 3, audio)
    yield "encoder.positional_embedding", (dimensions.n_audio_ctx, audio)
    yield from ((f"encoder.{name}.bias", (audio,)) for name in ("conv1", "conv2", "ln_post"))
    yield "encoder.ln_post.weight", (audio,)
    yield "decoder.token_embedding.weight", (dimensions.n_vocab, text)
    yield "decoder.positional_embedding", (dimensions.n_text_ctx, text)
    yield from ((f"decoder.ln.{end}", (text,)) for end in ("weight", "bias"))
    for i in range(dimensions.n_audio_layer):
        yield from _block_shapes(f"encoder.blocks.{i}.", ("attn",), audio)
    for i in range(dimensions.n_text_layer):
        yield from _block_shapes(f"decoder.blocks.{i}.", ("attn", "cross_attn"), text)


def _block_shapes(
    block: str, attentions: tuple[str, ...], size: int
) -> Iterator[tuple[str, Shape]]:
    for norm in (*(f"{attention}_ln" for attention in attentions), "mlp_ln"):
        yield from ((f"{block}{norm}.{end}", (size,)) for end in ("weight", "bias"))
    for attention in attentions:
        for part in ("query", "key", "value", "out"):
            yield f"{block}{attention}.{part}.weight", (size, size)
            if part != "key":
                yield f"{block}{attention}.{part}.bias", (size,)
    yield from _linear_shapes(f"{block}mlp1", 4 * size, size)
    yield from _linear_shapes(f"{block}mlp2", size, 4 * size)


def _linear_shapes(name: str, rows: int, columns: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (rows, columns)
    yield f"{name}.bias", (rows,)


def _shape(tensors: Tensors, name: str, rank: int, path: Path) -> Shape:
    if name not in tensors:
        raise CheckpointError(f"{path} lacks the tensor {name}")
    if tensors[name].ndim != rank:
        raise CheckpointError(f"{path}: {name} has shape {tensors[name].shape}, not rank {rank}")
    return tensors[name].shape


def _layers(tensors: Tensors, side: str) -> int:
    found = (re.match(rf"{side}\.blocks\.(\d+)\.", name) for name in tensors)
    return max((int(match[1]) + 1 for match in found if match), default=0)


def _refuse(what: str, names: list[str], path: Path) -> None:
    if names:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        raise CheckpointError(f"{path} {what} tensors: {'; '.join(names[:MAX_NAMED])}{more}")


def sinusoids(length: int, size: int) -> mx.array:
    """The encoder's positions: sines, then cosines, of wavelengths from 2 pi to 20,000 pi."""
    rates = np.exp(-np.log(10_000) / (size // 2 - 1) * np.arange(size // 2))
    angles = np.arange(length)[:, None] * rates[None]
    return mx.array(np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32))


class Builder:
    """Takes tensors by their native names, and leaves no unfolded copy of them behind."""

    def __init__(self, tensors: Tensors, dimensions: Dimensions, *, few_bits: bool = False) -> None:
        """``few_bits``: the matrices may be kept in 8 bits where that is faster."""
        self.tensors = tensors
        self.in_bytes = few_bits and on_cpu() and AVAILABLE
        self.dimensions = dimensions
        half = is_half(tensors["decoder.token_embedding.weight"])
        self.dtype = mx.float16 if half and not on_cpu() else mx.float32

    def whisper(self) -> Whisper:
        decoder = self._decoder()  # first: what its embedding needs on the way is used again
        encoder = self._encoder()
        return Whisper(dimensions=self.dimensions, encoder=encoder, decoder=decoder)

    def _encoder(self) -> Encoder:
        d = self.dimensions
        if "encoder.positional_embedding" not in self.tensors:
            positions = sinusoids(d.n_audio_ctx, d.n_audio_state)
            self.tensors["encoder.positional_embedding"] = positions
        return Encoder(
            convolutions=(self._convolution("conv1", 1), self._convolution("conv2", 2)),
            positions=self._done(self._take("encoder.positional_embedding")),
            layers=tuple(self._encoder_layer(i) for i in range(d.n_audio_layer)),
            norm_weight=self._done(self._take("encoder.ln_post.weight")),
            norm_bias=self._done(self._take("encoder.ln_post.bias")),
        )

    def _decoder(self) -> Decoder:
        embedding = self._embedding()
        return Decoder(
            embedding=embedding,
            screen=self._screen(embedding),
            positions=self._done(self._take("decoder.positional_embedding")),
            layers=tuple(self._decoder_layer(i) for i in range(self.dimensions.n_text_layer)),
            norm_weight=self._done(self._take("decoder.ln.weight")),
            norm_bias=self._done(self._take("decoder.ln.bias")),
        )

    def _convolution(self, name: str, stride: int) -> Convolution:
        weight = self._take(f"encoder.{name}.weight")
        rows = weight.reshape(weight.shape[0], -1).T
        bias = self._done(self._take(f"encoder.{name}.bias"))
        return Convolution(linear=Linear(weight=self._exact(rows), bias=bias), stride=stride)

    def _encoder_layer(self, i: int) -> EncoderLayer:
        block, n_head = f"encoder.blocks.{i}.", self.dimensions.n_audio_head
        query, key, value, out = self._attention(f"{block}attn", n_head)
        return EncoderLayer(
            n_head=n_head,
            query=self._linear(*query),
            key=self._done(key.T),
            value=self._matrix(value),
            out=self._linear(*out),
            mlp=self._mlp(block),
        )

    def _decoder_layer(self, i: int) -> DecoderLayer:
        block = f"decoder.blocks.{i}."
        return DecoderLayer(
            attention=self._self_attention(f"{block}attn"),
            cross=self._cross_attention(f"{block}cross_attn"),
            mlp=self._mlp(block),
        )

    def _self_attention(self, name: str) -> SelfAttention:
        n_head = self.dimensions.n_text_head
        query, key, value, out = self._attention(name, n_head)
        weight = mx.concatenate([query[0], key, value], axis=1)
        bias = mx.concatenate([query[1], mx.zeros(2 * key.shape[1])])
        return SelfAttention(
            n_head=n_head, query_key_value=self._linear(weight, bias), out=self._linear(*out)
        )

    def _cross_attention(self, name: str) -> CrossAttention:
        """The audio is not normalised again: only the query's side has a layer norm to fold."""
        n_head, size = self.dimensions.n_text_head, self.dimensions.n_text_state
        query, key, value, out = self._attention(name, n_head, own_keys=False)
        return CrossAttention(
            query=self._linear(*query),
            key=self._done(key.T.reshape(n_head, -1, size)),
            value=self._done(value.reshape(size, n_head, -1).swapaxes(0, 1)),
            out=self._linear(*out),
        )

    def _attention(
        self, name: str, n_head: int, *, own_keys: bool = True
    ) -> tuple[tuple[mx.array, mx.array], mx.array, mx.array, tuple[mx.array, mx.array]]:
        """Query (weight, bias), key, value, out (weight, bias), folded; weights input x output."""
        gain, shift = self._take(f"{name}_ln.weight"), self._take(f"{name}_ln.bias")
        query, query_bias = self._fold(f"{name}.query", gain, shift)
        scale = (query.shape[1] // n_head) ** -0.5
        key, value = (self._take(f"{name}.{part}.weight").T for part in ("key", "value"))
        value_bias = self._take(f"{name}.value.bias")
        if own_keys:
            value_bias = value_bias + shift @ value
            key, value = gain[:, None] * key, gain[:, None] * value
        out = self._take(f"{name}.out.weight").T
        out_bias = self._take(f"{name}.out.bias") + value_bias @ out
        return (query * scale, query_bias * scale), key, value, (out, out_bias)

    def _mlp(self, block: str) -> Mlp:
        gain, shift = self._take(f"{block}mlp_ln.weight"), self._take(f"{block}mlp_ln.bias")
        rise = self._linear(*self._fold(f"{block}mlp1", gain, shift))
        fall = self._linear(self._take(f"{block}mlp2.weight").T, self._take(f"{block}mlp2.bias"))
        return Mlp(rise=rise, fall=fall)

    def _fold(self, name: str, gain: mx.array, shift: mx.array) -> tuple[mx.array, mx.array]:
        """The layer norm's gain and bias into the linear layer that follows."""
        weight = self._take(f"{name}.weight").T
        return gain[:, None] * weight, self._take(f"{name}.bias") + shift @ weight

    def _linear(self, weight: mx.array, bias: mx.array) -> Linear:
        return Linear(weight=self._matrix(weight), bias=self._done(bias))

    def _matrix(self, weight: mx.array) -> ops.Matrix:
        if self.in_bytes:
            return Int8Matrix.rounded(ops.view(weight))
        return self._exact(weight)

    def _exact(self, weight: mx.array) -> ops.Matrix:
        laid_out = ops.matrix(weight.astype(self.dtype))
        mx.clear_cache()
        return laid_out

    def _embedding(self) -> ops.Matrix:
        """Token vectors as columns, which are also read one by one."""
        weight = self._take("decoder.token_embedding.weight").T
        if self.in_bytes:
            return Int8Matrix.rounded(ops.view(weight), keep_rows=True)
        return self._done(weight)

    def _screen(self, embedding: ops.Matrix) -> Screen | None:
        if isinstance(embedding, mx.array) and on_cpu() and AVAILABLE:
            return Screen(ops.view(embedding))
        return None

    def _take(self, name: str) -> mx.array:
        return array(self.tensors.pop(name)).astype(mx.float32)

    def _done(self, x: mx.array) -> mx.array:
        """In the type that is computed with, laid out row by row."""
        x = mx.contiguous(x.astype(self.dtype))
        mx.eval(x)
        mx.clear_cache()  # of what was needed on the way, which no later tensor's size would reuse
        return x
