"""The small layers that Kokoro's parts share; each reads its own tensors and is then a function.

Arrays are [time, channels] in float32 throughout: one utterance at a time, since instance norms
and lengths make padding in a batch both wrong and wasteful.
"""

from __future__ import annotations

import math

from models.backend import mx
from models.backend.moments import moments
from models.backend.ops import linear
from models.kokoro.weights import Weights

INSTANCE_EPS = 1e-5
LAYER_EPS = 1e-5


def leaky(x: mx.array, slope: float) -> mx.array:
    return mx.maximum(x, slope * x)


class Linear:
    def __init__(self, weights: Weights, name: str, inputs: int, outputs: int) -> None:
        self._weight, self._bias = weights.linear(name, inputs, outputs)

    def __call__(self, x: mx.array) -> mx.array:
        return linear(x, self._weight, self._bias)


class Adaptation:
    """What a style asks of a normalised layer: a gain and an offset per channel, each [1, n]."""

    def __init__(self, weights: Weights, name: str, style: int, channels: int) -> None:
        self._fc = Linear(weights, f"{name}.fc", style, 2 * channels)

    def __call__(self, style: mx.array) -> tuple[mx.array, mx.array]:
        gain, offset = mx.split(self._fc(style), 2, axis=-1)
        return 1 + gain, offset


class AdaptiveLayerNorm:
    def __init__(self, weights: Weights, name: str, style: int, channels: int) -> None:
        self._adapt = Adaptation(weights, name, style, channels)

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        gain, offset = self._adapt(style)
        return mx.fast.layer_norm(x, None, None, LAYER_EPS) * gain + offset


class AdaptiveInstanceNorm:
    """Normalises each channel over time, then adapts it: one multiply-add an element."""

    def __init__(self, weights: Weights, name: str, style: int, channels: int) -> None:
        self._adapt = Adaptation(weights, name, style, channels)

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        scale, shift = self.scale_shift(x, style)
        return x * scale + shift

    def scale_shift(self, x: mx.array, style: mx.array) -> tuple[mx.array, mx.array]:
        gain, offset = self._adapt(style)
        mean, variance = moments(x)
        scale = gain * mx.rsqrt(variance + INSTANCE_EPS)
        return scale, offset - mean * scale


class Doubling:
    """A depthwise transposed convolution, kernel 3, stride 2: every frame becomes two."""

    def __init__(self, weights: Weights, name: str, channels: int) -> None:
        kernel = weights.unfolded(name, channels, 1, 3)
        self._before, self._own, self._after = (kernel[:, 0, tap] for tap in range(3))
        self._bias = weights.take(f"{name}.bias", channels)

    def __call__(self, x: mx.array) -> mx.array:
        following = mx.pad(x[1:], [(0, 1), (0, 0)])
        pairs = mx.stack([x * self._own, x * self._after + following * self._before], axis=1)
        return pairs.reshape(-1, x.shape[1]) + self._bias


class ResidualBlock:
    """Two adapted convolutions beside a shortcut; may double the frame rate."""

    def __init__(
        self,
        weights: Weights,
        name: str,
        inputs: int,
        outputs: int,
        *,
        style: int,
        double: bool = False,
    ) -> None:
        self._norm1 = AdaptiveInstanceNorm(weights, f"{name}.norm1", style, inputs)
        self._norm2 = AdaptiveInstanceNorm(weights, f"{name}.norm2", style, outputs)
        self._conv1 = weights.convolution(f"{name}.conv1", inputs, outputs, 3, padding=1)
        self._conv2 = weights.convolution(f"{name}.conv2", outputs, outputs, 3, padding=1)
        self._double = Doubling(weights, f"{name}.pool", inputs) if double else None
        self._shortcut = (
            weights.convolution(f"{name}.conv1x1", inputs, outputs, 1, bias=False)
            if inputs != outputs
            else None
        )

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        y = leaky(self._norm1(x, style), 0.2)
        if self._double is not None:
            y = self._double(y)
        y = self._conv1(y)
        y = self._conv2(leaky(self._norm2(y, style), 0.2))
        return (y + self._beside(x)) * math.sqrt(0.5)

    def _beside(self, x: mx.array) -> mx.array:
        if self._shortcut is not None:
            x = self._shortcut(x)
        return x if self._double is None else mx.repeat(x, 2, axis=0)
