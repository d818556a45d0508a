from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.kokoro.layers import AdaptiveInstanceNorm, AdaptiveLayerNorm, Doubling, ResidualBlock
from models.kokoro.weights import Weights

STYLE, CHANNELS, TIME = 4, 6, 15


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def weights_of(arrays) -> Weights:
    return Weights({name: mx.array(value) for name, value in arrays.items()}, source="random")


def adaptation(rng, name, channels=CHANNELS):
    return {
        f"{name}.fc.weight": normal(rng, 2 * channels, STYLE),
        f"{name}.fc.bias": normal(rng, 2 * channels),
    }


def adapted(x, arrays, name, style, axis):
    gain, offset = np.split(arrays[f"{name}.fc.weight"] @ style + arrays[f"{name}.fc.bias"], 2)
    normed = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
    return normed * (1 + gain) + offset


@pytest.mark.parametrize(("layer", "axis"), [(AdaptiveInstanceNorm, 0), (AdaptiveLayerNorm, 1)])
def test_adaptive_norms(rng, layer, axis):
    arrays, x, style = adaptation(rng, "n"), 50 + normal(rng, TIME, CHANNELS), normal(rng, STYLE)
    got = layer(weights_of(arrays), "n", STYLE, CHANNELS)(mx.array(x), mx.array(style[None]))
    np.testing.assert_allclose(np.array(got), adapted(x, arrays, "n", style, axis), atol=1e-3)


def folded(arrays, name):
    value = arrays[f"{name}.weight_v"]
    norm = np.sqrt((value**2).sum(axis=(1, 2), keepdims=True))
    return arrays[f"{name}.weight_g"] * value / norm


def normed(rng, name, *shape, bias=True):
    arrays = {
        f"{name}.weight_g": normal(rng, shape[0], 1, 1),
        f"{name}.weight_v": normal(rng, *shape),
    }
    return arrays | ({f"{name}.bias": normal(rng, shape[0])} if bias else {})


def doubled(x, kernel, bias):
    y = np.zeros((2 * len(x) + 2, x.shape[1]))
    for t, frame in enumerate(x):
        for k in range(3):
            y[2 * t + k] += frame * kernel[:, 0, k]
    return y[1 : 2 * len(x) + 1] + bias


def test_doubling_is_a_depthwise_transposed_convolution(rng):
    arrays, x = normed(rng, "pool", CHANNELS, 1, 3), normal(rng, TIME, CHANNELS)
    got = Doubling(weights_of(arrays), "pool", CHANNELS)(mx.array(x))
    expected = doubled(x, folded(arrays, "pool"), arrays["pool.bias"])
    np.testing.assert_allclose(np.array(got), expected, atol=1e-5)


def convolved(x, weight, bias=0):
    half = weight.shape[2] // 2
    padded = np.pad(x, [(half, half), (0, 0)])
    taps = [padded[k : k + len(x)] @ weight[:, :, k].T for k in range(weight.shape[2])]
    return sum(taps) + bias


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


@pytest.mark.parametrize(("outputs", "double"), [(CHANNELS, False), (8, False), (8, True)])
def test_residual_block(rng, outputs, double):
    arrays = adaptation(rng, "b.norm1") | adaptation(rng, "b.norm2", outputs)
    arrays |= normed(rng, "b.conv1", outputs, CHANNELS, 3)
    arrays |= normed(rng, "b.conv2", outputs, outputs, 3)
    if outputs != CHANNELS:
        arrays |= normed(rng, "b.conv1x1", outputs, CHANNELS, 1, bias=False)
    if double:
        arrays |= normed(rng, "b.pool", CHANNELS, 1, 3)
    x, style = normal(rng, TIME, CHANNELS), normal(rng, STYLE)
    block = ResidualBlock(weights_of(arrays), "b", CHANNELS, outputs, style=STYLE, double=double)
    y, beside = leaky(adapted(x, arrays, "b.norm1", style, 0)), x
    if double:
        y = doubled(y, folded(arrays, "b.pool"), arrays["b.pool.bias"])
        beside = np.repeat(x, 2, axis=0)
    y = convolved(y, folded(arrays, "b.conv1"), arrays["b.conv1.bias"])
    y = leaky(adapted(y, arrays, "b.norm2", style, 0))
    y = convolved(y, folded(arrays, "b.conv2"), arrays["b.conv2.bias"])
    if outputs != CHANNELS:
        beside = convolved(beside, folded(arrays, "b.conv1x1"))
    got = np.array(block(mx.array(x), mx.array(style[None])))
    np.testing.assert_allclose(got, (y + beside) / np.sqrt(2), rtol=1e-3, atol=1e-4)
