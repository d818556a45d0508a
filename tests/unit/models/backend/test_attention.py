"""Attention against its definition in float64, as NumPy does it on a CPU and as MLX does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from models.backend import attention, mx

HEADS, SIZE = 3, 8
D = HEADS * SIZE


@pytest.fixture(params=["numpy", "mlx"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "mlx":
        monkeypatch.setattr(attention, "on_cpu", lambda: False)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def softmax(x: np.ndarray) -> np.ndarray:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def heads(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:2], HEADS, SIZE).swapaxes(1, 2).astype(np.float64)


def together(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], D)


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return rng.normal(0, scale, shape).astype(np.float32)


# Scores to about 90 and beyond, where the exponential of a float32 ends.
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
@pytest.mark.parametrize(("rows", "positions"), [(1, 9), (125, 80), (300, 33)])
def test_attend(rng, rows, positions, scale):
    query = normal(rng, 2, rows, D, scale=scale)
    keys, values = normal(rng, 2, HEADS, SIZE, positions), normal(rng, 2, positions, D)
    expected = together(softmax(heads(query) @ keys) @ heads(values))
    got = np.array(attention.attend(mx.array(query), mx.array(keys), mx.array(values)))
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def test_attend_where_every_score_is_far_below_zero(rng):
    query = np.full((1, 4, D), -50, np.float32)
    keys = 1 + np.abs(normal(rng, 1, HEADS, SIZE, 6))
    values = normal(rng, 1, 6, D)
    expected = together(softmax(heads(query) @ keys.astype(np.float64)) @ heads(values))
    got = np.array(attention.attend(mx.array(query), mx.array(keys), mx.array(values)))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("steps", [(4,), (3, 1, 1), (1, 2)])
def test_attend_to_past_sees_what_came_before_and_nothing_later(rng, steps):
    batch, total = 2, sum(steps)
    x = normal(rng, batch, total, 3 * D)
    query, keys, values = (heads(part) for part in np.split(x, 3, axis=-1))
    scores = query @ keys.swapaxes(2, 3)
    scores[..., np.triu(np.ones((total, total), bool), 1)] = -np.inf
    expected = together(softmax(scores) @ values)
    past = tuple(mx.zeros((batch, HEADS, total + 2, SIZE)) for _ in range(2))
    mx.eval(past)
    starts = np.cumsum([0, *steps])
    got = [
        np.array(attention.attend_to_past(mx.array(x[:, start:end]), past, int(start)))
        for start, end in pairwise(starts)
    ]
    np.testing.assert_allclose(np.concatenate(got, axis=1), expected, rtol=1e-4, atol=1e-5)
    assert not np.array(past[0])[:, :, total:].any()


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("scale", [0.1, 20.0])
def test_attend_to_states(rng, batch, new, scale):
    query, states = normal(rng, batch, new, D, scale=scale), normal(rng, batch, 40, D)
    key, value = normal(rng, HEADS, SIZE, D, scale=0.3), normal(rng, HEADS, D, SIZE, scale=0.3)
    wide = states[:, None].astype(np.float64)
    scores = heads(query) @ key @ wide.swapaxes(2, 3)
    expected = together(softmax(scores) @ wide @ value)
    arrays = (mx.array(x) for x in (query, key, value, states))
    got = np.array(attention.attend_to_states(*arrays))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
