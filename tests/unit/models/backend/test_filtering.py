"""Snake and convolution in one pass, against the two written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import filtering, mx
from models.backend.filtering import SnakeConvolution


@pytest.fixture(params=["filtering", "mlx", "small blocks"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "mlx":
        monkeypatch.setattr(filtering, "on_cpu", lambda: False)
    if request.param == "small blocks":
        monkeypatch.setattr(filtering, "BLOCK", 64)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(13)


def expected(x, weight, bias, alpha, dilation):
    outputs, _, kernel = weight.shape
    half = dilation * (kernel // 2)
    active = x.astype(np.float64)
    active = np.pad(active + np.sin(alpha * active) ** 2 / alpha, [(half, half), (0, 0)])
    y = np.zeros((len(x), outputs)) + bias
    for k in range(kernel):
        y += active[k * dilation : k * dilation + len(x)] @ weight[:, :, k].T
    return y


@pytest.mark.parametrize("length", [1, 7, 64, 301])
@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 5), (7, 3), (11, 1), (11, 5)])
@pytest.mark.parametrize("channels", [8, 33])
def test_equals_the_sum_as_written(rng, length, kernel, dilation, channels):
    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    x, weight, bias = normal(length, channels), normal(channels, channels, kernel), normal(channels)
    alpha = rng.uniform(0.3, 3, channels).astype(np.float32)
    scale, shift, added = normal(1, channels), normal(1, channels), normal(length, channels)
    layer = SnakeConvolution(mx.array(weight), mx.array(bias), mx.array(alpha), dilation=dilation)
    want = expected(x * scale + shift, weight, bias, alpha, dilation)
    tolerance = {"rtol": 1e-3, "atol": 2e-4 * np.sqrt(channels * kernel)}
    got = layer(mx.array(x), mx.array(scale), mx.array(shift))
    np.testing.assert_allclose(np.array(got), want, **tolerance)
    got = layer(mx.array(x), mx.array(scale), mx.array(shift), added=mx.array(added))
    np.testing.assert_allclose(np.array(got), want + added, **tolerance)


def test_the_arguments_are_left_as_they_were(rng):
    x = rng.normal(size=(50, 4)).astype(np.float32)
    given = mx.array(x)
    ones = mx.ones((1, 4))
    layer = SnakeConvolution(mx.ones((4, 4, 3)), mx.zeros(4), mx.ones(4))
    mx.eval(layer(given, ones, ones, added=given))
    assert np.array_equal(np.array(given), x)
