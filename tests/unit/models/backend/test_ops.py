"""The elementwise functions against float64 references, at sizes below and above one block."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx, ops, parallel

SHAPES = [(3, 7), (5, 41, 333), (700, 1500)]
erf = np.vectorize(math.erf, otypes=[np.float64])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


REFERENCES = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sin": np.sin,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softmax": softmax,
}


def sample(shape: tuple[int, ...], scale: float = 3.0) -> np.ndarray:
    return np.random.default_rng(7).normal(0, scale, shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_matches_its_reference(name, shape):
    x = sample(shape)
    got = np.array(getattr(ops, name)(mx.array(x)))
    np.testing.assert_allclose(got, REFERENCES[name](x.astype(np.float64)), rtol=2e-6, atol=1e-6)


def test_norm_where_onednn_is_missing(monkeypatch):
    monkeypatch.setattr(ops, "AVAILABLE", False)
    x = sample((700, 1500))
    exact = x.astype(np.float64)
    mean, deviation = exact.mean(1, keepdims=True), exact.std(1, keepdims=True)
    normal = np.array(ops.normalise(mx.array(x), 1e-5))
    np.testing.assert_allclose(normal, (exact - mean) / deviation, atol=1e-5)


def test_a_matrix_stays_plain_where_onednn_is_missing(monkeypatch):
    monkeypatch.setattr(ops, "AVAILABLE", False)
    for shape in ((8, 20), (20, 8)):
        weight, x = mx.array(sample(shape)), mx.array(sample((3, shape[0])))
        kept, bias = ops.matrix(weight), mx.array(sample(shape[1:]))
        assert isinstance(kept, mx.array)
        expected = np.array(x) @ np.array(weight) + np.array(bias)
        np.testing.assert_allclose(np.array(ops.linear(x, kept, bias)), expected, rtol=1e-4)
        activated = np.array(ops.activated(x, kept, bias))
        np.testing.assert_allclose(activated, REFERENCES["gelu"](expected), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "gelu", "gelu_tanh", "softmax"])
def test_is_finite_at_the_ends(name):
    x = np.array([[-3e4, -120, -30, 0.0, 30, 120, 3e4]], np.float32)
    got = np.array(getattr(ops, name)(mx.array(x)))
    np.testing.assert_allclose(got, _ends(name, x), atol=1e-6)


def _ends(name: str, x: np.ndarray) -> np.ndarray:
    if name == "softmax":
        return np.eye(7)[-1:]
    low = {"tanh": -1.0}.get(name, 0.0)
    high = np.maximum(x, 0) if name.startswith("gelu") else 1.0
    middle = {"sigmoid": 0.5}.get(name, 0.0)
    return np.where(x < 0, low, np.where(x > 0, high, middle))


@pytest.mark.parametrize("shape", [(40, 16), (9, 1000, 64)])
def test_snake_takes_alpha_per_channel(shape):
    x, alpha = sample(shape), np.linspace(0.2, 4, shape[-1], dtype=np.float32)
    expected = x + np.sin(alpha.astype(np.float64) * x) ** 2 / alpha
    got = np.array(ops.snake(mx.array(x), mx.array(alpha)))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["exp", "softmax"])
def test_a_transposed_argument_gives_the_same(name):
    x = sample((6, 4, 5), 1.0)
    got = np.array(getattr(ops, name)(mx.array(x).swapaxes(0, 2)))
    np.testing.assert_allclose(got, REFERENCES[name](x.swapaxes(0, 2)), rtol=2e-6)


def test_a_result_feeds_further_mlx_operations():
    x = sample((300, 20))
    y = ops.tanh(mx.array(x) * 2) @ mx.ones((20, 1))
    np.testing.assert_allclose(np.array(y), np.tanh(2 * x).sum(-1, keepdims=True), atol=1e-4)


def test_each_keeps_order_and_nests():
    def row_sum(row: int) -> float:
        inner = parallel.each(lambda k: mx.full((4,), row * k).sum().item(), [1, 2, 3])
        return sum(inner)

    assert parallel.each(row_sum, list(range(20))) == [24.0 * row for row in range(20)]


def test_each_passes_on_an_exception():
    def fail(item: int) -> int:
        raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        parallel.each(fail, [1, 1])


@pytest.mark.parametrize("shape", [(5, 40), (3, 300, 512)])
def test_normalise_leaves_its_argument_alone(shape):
    x = sample(shape) + 2
    array = mx.array(x)
    got = np.array(ops.normalise(array, 1e-5))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    expected = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, expected, atol=5e-6)
    np.testing.assert_array_equal(np.array(array), x)


@pytest.mark.parametrize("rows", [(3,), (2, 3)])
@pytest.mark.parametrize("terms", ["", "bias", "added", "bias added"])
@pytest.mark.parametrize("cpu", [True, False])
def test_linear_leaves_its_arguments_alone(rows, terms, cpu, monkeypatch):
    monkeypatch.setattr(ops, "on_cpu", lambda: cpu)
    x, weight, bias, added = (sample(shape) for shape in ((*rows, 7), (7, 5), (5,), (*rows, 5)))
    given = {"bias": mx.array(bias), "added": mx.array(added)}
    given = {name: term for name, term in given.items() if name in terms}
    expected = x.astype(np.float64) @ weight + sum(np.array(term) for term in given.values())
    argument = mx.array(x)
    got = ops.linear(argument, mx.array(weight), **given)
    np.testing.assert_allclose(np.array(got), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.array(argument), x)
    np.testing.assert_array_equal(np.array(given.get("added", added)), added)


@pytest.mark.parametrize("rows", [1, 100, 1500])
def test_by_rows_equals_the_whole(rows):
    x, y = mx.array(sample((1, rows, 8))), mx.array(sample((8, 4)))
    got = parallel.by_rows(lambda part, weight: part @ weight, x, y)
    np.testing.assert_allclose(np.array(got), np.array(x @ y), atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_over_batch_equals_the_whole(count):
    x = mx.array(sample((count, 50, 8)))
    got = parallel.over_batch(lambda part: mx.tanh(part).sum(axis=1), x)
    np.testing.assert_allclose(np.array(got), np.tanh(np.array(x)).sum(1), atol=1e-4)
