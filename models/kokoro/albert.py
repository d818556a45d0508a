"""The phoneme encoder: an ALBERT, one transformer layer applied again and again."""

from __future__ import annotations

from models.backend import mx
from models.backend.ops import gelu_tanh, linear, softmax
from models.kokoro.config import AlbertConfig
from models.kokoro.layers import Linear
from models.kokoro.weights import Weights

EMBEDDING = 128
EPS = 1e-12
LAYER = "bert.encoder.albert_layer_groups.0.albert_layers.0"


class LayerNorm:
    def __init__(self, weights: Weights, name: str, channels: int) -> None:
        self._gain = weights.take(f"{name}.weight", channels)
        self._offset = weights.take(f"{name}.bias", channels)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self._gain, self._offset, EPS)


class Attention:
    def __init__(self, weights: Weights, name: str, width: int, heads: int) -> None:
        self._heads, self._size = heads, width // heads
        scale = self._size**-0.5  # of the scores, folded into the query
        query, query_bias = weights.linear(f"{name}.query", width, width)
        key, key_bias = weights.linear(f"{name}.key", width, width)
        value, value_bias = weights.linear(f"{name}.value", width, width)
        self._weight = mx.concatenate([query * scale, key, value], axis=1)
        self._bias = mx.concatenate([query_bias * scale, key_bias, value_bias])
        self._dense = Linear(weights, f"{name}.dense", width, width)

    def __call__(self, x: mx.array) -> mx.array:
        stacked = linear(x, self._weight, self._bias)
        q, k, v = stacked.reshape(-1, 3, self._heads, self._size).transpose(1, 2, 0, 3)
        mixed = softmax(q @ k.transpose(0, 2, 1)) @ v
        return self._dense(mixed.transpose(1, 0, 2).reshape(x.shape))


class Albert:
    """[time] of phoneme ids to [time, hidden]."""

    def __init__(self, weights: Weights, config: AlbertConfig, *, tokens: int) -> None:
        name = "bert.embeddings"
        types = weights.take(f"{name}.token_type_embeddings.weight", 2, EMBEDDING)
        self._words = weights.take(f"{name}.word_embeddings.weight", tokens, EMBEDDING) + types[0]
        self._positions = weights.take(
            f"{name}.position_embeddings.weight", config.positions, EMBEDDING
        )
        self._norm = LayerNorm(weights, f"{name}.LayerNorm", EMBEDDING)
        width = config.hidden
        self._widen = Linear(weights, "bert.encoder.embedding_hidden_mapping_in", EMBEDDING, width)
        self._layers = config.layers
        self._attention = Attention(weights, f"{LAYER}.attention", width, config.heads)
        self._attention_norm = LayerNorm(weights, f"{LAYER}.attention.LayerNorm", width)
        self._up = Linear(weights, f"{LAYER}.ffn", width, config.intermediate)
        self._down = Linear(weights, f"{LAYER}.ffn_output", config.intermediate, width)
        self._output_norm = LayerNorm(weights, f"{LAYER}.full_layer_layer_norm", width)

    def __call__(self, ids: mx.array) -> mx.array:
        x = self._widen(self._norm(self._words[ids] + self._positions[: ids.shape[0]]))
        for _ in range(self._layers):
            x = self._attention_norm(x + self._attention(x))
            x = self._output_norm(x + self._down(gelu_tanh(self._up(x))))
        return x
