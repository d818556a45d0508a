"""The LSTM against its equations written out, stepped in NumPy and stepped in MLX."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx, recurrent
from models.backend.recurrent import BidirectionalLstm, LstmWeights

INPUTS, HIDDEN = 6, 5


@pytest.fixture(params=["numpy", "mlx"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "on_cpu", lambda: request.param == "numpy")


@pytest.fixture
def sides() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    shapes = {"inputs": (4 * HIDDEN, INPUTS), "hidden": (4 * HIDDEN, HIDDEN), "bias": (4 * HIDDEN,)}
    return [
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(2)
    ]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_direction(x, inputs, hidden, bias):
    h, c, states = np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for frame in x.astype(np.float64):
        i, f, g, o = np.split(inputs @ frame + hidden @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


@pytest.mark.parametrize("length", [1, 2, 17])
def test_both_directions(sides, length):
    x = np.random.default_rng(length).normal(size=(length, INPUTS)).astype(np.float32)
    forward, backward = (
        LstmWeights(**{name: mx.array(value) for name, value in side.items()}) for side in sides
    )
    got = np.array(BidirectionalLstm(forward, backward)(mx.array(x)))
    expected = np.concatenate(
        [one_direction(x, **sides[0]), one_direction(x[::-1], **sides[1])[::-1]], axis=1
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_same_input_same_output(sides):
    layer = BidirectionalLstm(
        *(LstmWeights(**{name: mx.array(value) for name, value in side.items()}) for side in sides)
    )
    x = mx.array(np.ones((9, INPUTS), np.float32))
    assert np.array_equal(np.array(layer(x)), np.array(layer(x)))
