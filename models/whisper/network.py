"""The Whisper network: audio encoder and text decoder over MLX arrays, and nothing else.

It knows neither files nor tokens' meaning. Weights arrive folded (models/whisper/weights.py), which
leaves the same function with fewer passes: the gain and bias of each layer norm live in the matrix
after it, 1/sqrt(head size) in the query matrix, the value bias in the output bias; the key bias is
gone, since softmax does not see it. Shapes: B windows, T audio positions, n tokens, H heads of d
numbers, D = H d.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.backend import mx, ops, parallel
from models.backend.attention import Past, attend, attend_to_past, attend_to_states
from models.backend.screen import Glance, Screen

EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    @property
    def multilingual(self) -> bool:
        return self.n_vocab >= 51_865  # English-only checkpoints have one token less


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    weight: ops.Matrix
    """Input size x output size."""
    bias: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        return ops.linear(x, self.weight, self.bias)

    def added_to(self, residual: mx.array, x: mx.array) -> mx.array:
        """``residual + self(x)``, the sum inside the product."""
        return ops.linear(x, self.weight, self.bias, added=residual)

    def activated(self, x: mx.array) -> mx.array:
        """``gelu(self(x))``, the function inside the product."""
        return ops.activated(x, self.weight, self.bias)


def normalise(x: mx.array) -> mx.array:
    return ops.normalise(x, EPSILON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    rise: Linear
    fall: Linear

    def added_to(self, x: mx.array) -> mx.array:
        return self.fall.added_to(x, self.rise.activated(normalise(x)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Three taps wide, padded by one, as one product over shifted copies."""

    linear: Linear
    """Rows ordered tap by tap, channels within."""
    stride: int

    def __call__(self, x: mx.array) -> mx.array:
        length = x.shape[1]
        padded = mx.pad(x, [(0, 0), (1, 1), (0, 0)])
        taps = [padded[:, tap : tap + length : self.stride] for tap in range(3)]
        return self.linear.activated(mx.concatenate(taps, axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLayer:
    n_head: int
    query: Linear
    key: mx.array
    """Output x input: its product with the transposed input needs no copies."""
    value: ops.Matrix
    """Input x output."""
    out: Linear
    mlp: Mlp

    def __call__(self, x: mx.array) -> mx.array:
        batch, length, size = x.shape
        heard = normalise(x)
        keys = self.key @ heard.swapaxes(1, 2)
        keys = keys.reshape(batch, self.n_head, size // self.n_head, length)
        return parallel.by_rows(self._rows, x, keys, ops.linear(heard, self.value))

    def _rows(self, x: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        """All that is left is independent for each row of x."""
        heard = attend(self.query(normalise(x)), keys, values)
        return self.mlp.added_to(self.out.added_to(x, heard))


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    convolutions: tuple[Convolution, Convolution]
    positions: mx.array
    layers: tuple[EncoderLayer, ...]
    norm_weight: mx.array
    norm_bias: mx.array

    def __call__(self, mel: mx.array) -> mx.array:
        """(B, 2 T, mels) -> (B, T, D)."""
        x = mel.astype(self.positions.dtype)
        for convolution in self.convolutions:
            x = convolution(x)
        x = x + self.positions
        for layer in self.layers:
            x = layer(x)
        return mx.fast.layer_norm(x, self.norm_weight, self.norm_bias, EPSILON)


@dataclass(slots=True)
class Cache:
    """Keys and values of the tokens so far: a (B, H, capacity, d) pair a layer, filled in place."""

    layers: list[Past]
    length: int = 0

    def keep(self, rows: mx.array) -> None:
        self.layers = [(keys[rows], values[rows]) for keys, values in self.layers]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAttention:
    n_head: int
    query_key_value: Linear
    out: Linear

    def added_to(self, x: mx.array, past: Past, start: int) -> mx.array:
        heard = attend_to_past(self.query_key_value(normalise(x)), past, start)
        return self.out.added_to(x, heard)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttention:
    """Attention to the audio itself: the key and value matrices stay with the decoder."""

    query: Linear
    key: mx.array
    """(H, d, D)"""
    value: mx.array
    """(H, D, d)"""
    out: Linear

    def added_to(self, x: mx.array, audio: mx.array) -> mx.array:
        query = self.query(normalise(x))
        heard = attend_to_states(query, self.key, self.value, audio)
        return self.out.added_to(x, heard)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderLayer:
    attention: SelfAttention
    cross: CrossAttention
    mlp: Mlp

    def __call__(self, x: mx.array, audio: mx.array, past: Past, start: int) -> mx.array:
        x = self.attention.added_to(x, past, start)
        return self.mlp.added_to(self.cross.added_to(x, audio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    embedding: ops.Matrix
    """(D, vocabulary): token vectors as columns, which is the fastest layout for the logits."""
    positions: mx.array
    layers: tuple[DecoderLayer, ...]
    norm_weight: mx.array
    norm_bias: mx.array
    screen: Screen | None = None
    """Of the embedding, where that finds the likeliest token sooner."""

    def __call__(self, tokens: mx.array, audio: mx.array, cache: Cache) -> mx.array:
        """(B, n) token ids after those in the cache -> (B, n, D), and their keys to the cache."""
        end = cache.length + tokens.shape[1]
        x = ops.columns(self.embedding, tokens)
        x = x + self.positions[cache.length : end]
        for layer, kept in zip(self.layers, cache.layers, strict=True):
            x = layer(x, audio, kept, cache.length)
        cache.length = end
        return x

    def logits(self, x: mx.array) -> mx.array:
        """(B, D) -> (B, vocabulary)."""
        return ops.linear(self._normalised(x), self.embedding)

    def glance(self, x: mx.array) -> Glance | None:
        """At the logits of (B, D), where there is a screen."""
        return self.screen.glance(ops.view(self._normalised(x))) if self.screen else None

    def _normalised(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.norm_weight, self.norm_bias, EPSILON)

    def new_cache(self, batch: int, capacity: int) -> Cache:
        attention = self.layers[0].attention
        size = self.positions.shape[1] // attention.n_head
        shape = (batch, attention.n_head, capacity, size)
        dtype = self.positions.dtype
        pairs = [(mx.zeros(shape, dtype), mx.zeros(shape, dtype)) for _ in self.layers]
        mx.eval(pairs)
        return Cache(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whisper:
    dimensions: Dimensions
    encoder: Encoder
    decoder: Decoder

    def listen(self, mel: mx.array) -> mx.array:
        """(B, 2 T, mels) -> (B, T, D): windows together on a GPU, one to a core on a CPU."""
        return parallel.over_batch(self.encoder, mel)
