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
    weight: mx.array
    """Input size x output size."""
    bias: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        return mx.addmm(self.bias, matrix(x), self.weight).reshape(*x.shape[:-1], -1)

    def added_to(self, residual: mx.array, x: mx.array) -> mx.array:
        """``residual + self(x)``, the sum inside the product."""
        start = matrix(residual + self.bias)
        return mx.addmm(start, matrix(x), self.weight).reshape(residual.shape)


def matrix(x: mx.array) -> mx.array:
    """All rows of a batch: a batch would be as many products, each reading the weights again."""
    return x.reshape(-1, x.shape[-1])


def normalise(x: mx.array) -> mx.array:
    return ops.normalise(x, EPSILON)


def heads(x: mx.array, count: int) -> mx.array:
    """(B, n, D) -> (B, H, n, d)."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def merge(x: mx.array) -> mx.array:
    """(B, H, n, d) -> (B, n, D)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    rise: Linear
    fall: Linear

    def added_to(self, x: mx.array) -> mx.array:
        return self.fall.added_to(x, ops.gelu(self.rise(normalise(x))))


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
        return ops.gelu(self.linear(mx.concatenate(taps, axis=-1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLayer:
    n_head: int
    query: Linear
    key_value: mx.array
    """Output x input, keys above values: its product with the transposed input needs no copies."""
    out: Linear
    mlp: Mlp

    def __call__(self, x: mx.array) -> mx.array:
        batch, length, size = x.shape
        both = self.key_value @ normalise(x).swapaxes(1, 2)
        both = both.reshape(batch, 2, self.n_head, size // self.n_head, length)
        return parallel.by_rows(self._rows, x, both[:, 0], both[:, 1])

    def _rows(self, x: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        """All that is left is independent for each row of x."""
        heard = ops.attend(self.query(normalise(x)), keys, values)
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

    layers: list[tuple[mx.array, mx.array]]
    length: int = 0

    def keep(self, rows: mx.array) -> None:
        self.layers = [(keys[rows], values[rows]) for keys, values in self.layers]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAttention:
    n_head: int
    query_key_value: Linear
    out: Linear

    def added_to(self, x: mx.array, cache: tuple[mx.array, mx.array], past: int) -> mx.array:
        parts = mx.split(self.query_key_value(normalise(x)), 3, axis=-1)
        query, *new = (heads(part, self.n_head) for part in parts)
        end = past + x.shape[1]
        stored = (ops.store(old, past, part) for old, part in zip(cache, new, strict=True))
        keys, values = (capacity[:, :, :end] for capacity in stored)
        scores = query @ keys.swapaxes(2, 3)
        if x.shape[1] > 1:
            scores = scores + causal_mask(x.shape[1], end).astype(x.dtype)
        return self.out.added_to(x, merge(ops.softmax(scores) @ values))


def causal_mask(tokens: int, end: int) -> mx.array:
    visible = mx.arange(end)[None] <= mx.arange(end - tokens, end)[:, None]
    return mx.where(visible, 0.0, -mx.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttention:
    """Attention to the audio, its key and value matrices moved to the query's and result's side.

    (q K^T) = (q W_k) X^T and (P V) = (P X) W_v: no keys and values for each layer, which would take
    a tenth of the encoder's time and 12 times the memory, and one product a window with all heads
    as its rows.
    """

    query: Linear
    key: mx.array
    """(H, d, D)"""
    value: mx.array
    """(H, D, d)"""
    out: Linear

    def added_to(self, x: mx.array, audio: mx.array) -> mx.array:
        batch, tokens, size = x.shape
        n_head = self.key.shape[0]
        query = self.query(normalise(x)).reshape(batch * tokens, n_head, -1).swapaxes(0, 1)
        query = (query @ self.key).reshape(n_head, batch, tokens, size).swapaxes(0, 1)
        heard = ops.attend_to_states(query.reshape(batch, n_head * tokens, size), audio)
        heard = heard.reshape(batch, n_head, tokens, size)
        heard = heard.swapaxes(0, 1).reshape(n_head, batch * tokens, size) @ self.value
        return self.out.added_to(x, heard.swapaxes(0, 1).reshape(x.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderLayer:
    attention: SelfAttention
    cross: CrossAttention
    mlp: Mlp

    def __call__(
        self, x: mx.array, audio: mx.array, cache: tuple[mx.array, mx.array], past: int
    ) -> mx.array:
        x = self.attention.added_to(x, cache, past)
        return self.mlp.added_to(self.cross.added_to(x, audio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    embedding: mx.array
    """(D, vocabulary): token vectors as columns, which is the fastest layout for the logits."""
    positions: mx.array
    layers: tuple[DecoderLayer, ...]
    norm_weight: mx.array
    norm_bias: mx.array

    def __call__(self, tokens: mx.array, audio: mx.array, cache: Cache) -> mx.array:
        """(B, n) token ids after those in the cache -> (B, n, D), and their keys to the cache."""
        end = cache.length + tokens.shape[1]
        x = mx.take(self.embedding, tokens, axis=1).transpose(1, 2, 0)
        x = x + self.positions[cache.length : end]
        for layer, kept in zip(self.layers, cache.layers, strict=True):
            x = layer(x, audio, kept, cache.length)
        cache.length = end
        return x

    def logits(self, x: mx.array) -> mx.array:
        """(B, D) -> (B, vocabulary)."""
        return mx.fast.layer_norm(x, self.norm_weight, self.norm_bias, EPSILON) @ self.embedding

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
