"""Convolutions against sums written out, on both paths: products of matrices and MLX's own."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import conv, mx
from models.backend.conv import Convolution, TransposedConvolution


@pytest.fixture(params=["products", "mlx"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "on_cpu", lambda: request.param == "products")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def convolved(x, weight, bias, *, stride=1, dilation=1, padding=0):
    outputs, _, kernel = weight.shape
    x = np.pad(x, [(padding, padding), (0, 0)]).astype(np.float64)
    steps = (len(x) - dilation * (kernel - 1) - 1) // stride + 1
    y = np.zeros((steps, outputs)) + bias
    for t in range(steps):
        for k in range(kernel):
            y[t] += weight[:, :, k] @ x[t * stride + k * dilation]
    return y


def transposed(x, weight, bias, stride, padding):
    _, outputs, kernel = weight.shape
    y = np.zeros(((len(x) - 1) * stride + kernel, outputs))
    for t, frame in enumerate(x.astype(np.float64)):
        for k in range(kernel):
            y[t * stride + k] += frame @ weight[:, :, k]
    return y[padding : len(y) - padding] + bias


@pytest.mark.parametrize("length", [11, 64, 257])
@pytest.mark.parametrize(
    ("shape", "geometry"),
    [
        ((6, 4, 1), {}),
        ((6, 4, 3), {"padding": 1}),
        ((3, 5, 7), {"dilation": 3, "padding": 9}),
        ((8, 8, 11), {"dilation": 5, "padding": 25}),
        ((6, 22, 12), {"stride": 6, "padding": 3}),
        ((1, 1, 3), {"stride": 2, "padding": 1}),
    ],
)
def test_convolution(rng, shape, geometry, length):
    weight = rng.normal(size=shape).astype(np.float32)
    bias = rng.normal(size=shape[0]).astype(np.float32)
    x = rng.normal(size=(length, shape[1])).astype(np.float32)
    got = Convolution(mx.array(weight), mx.array(bias), **geometry)(mx.array(x))
    expected = convolved(x, weight, bias, **geometry)
    np.testing.assert_allclose(np.array(got), expected, rtol=1e-4, atol=1e-4)


def test_convolution_without_bias(rng):
    weight = rng.normal(size=(3, 2, 1)).astype(np.float32)
    x = rng.normal(size=(9, 2)).astype(np.float32)
    expected = convolved(x, weight, 0)
    np.testing.assert_allclose(
        np.array(Convolution(mx.array(weight), None)(mx.array(x))), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("kernel", "stride"), [(20, 10), (12, 6), (4, 2), (6, 2)])
@pytest.mark.parametrize("length", [1, 2, 33])
def test_transposed_convolution(rng, kernel, stride, length):
    weight = rng.normal(size=(5, 4, kernel)).astype(np.float32)
    bias = rng.normal(size=4).astype(np.float32)
    x = rng.normal(size=(length, 5)).astype(np.float32)
    padding = (kernel - stride) // 2
    layer = TransposedConvolution(mx.array(weight), mx.array(bias), stride=stride, padding=padding)
    expected = transposed(x, weight, bias, stride, padding)
    np.testing.assert_allclose(np.array(layer(mx.array(x))), expected, rtol=1e-4, atol=1e-4)
