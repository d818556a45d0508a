"""The LSTM, which MLX steps one small operation at a time.

On a CPU the steps run in numpy on the same memory, both directions at once, because there an
operation of MLX costs more than the arithmetic in it; on a GPU they stay MLX operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.backend import mx, on_cpu
from models.backend.ops import Floats, linear, view

GATES = 4
"""In torch's order: input, forget, cell, output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmWeights:
    """One direction, as published by torch."""

    inputs: mx.array
    """[4 * hidden, in]."""
    hidden: mx.array
    """[4 * hidden, hidden]."""
    bias: mx.array
    """[4 * hidden]: the sum of torch's two."""


class BidirectionalLstm:
    """[time, in] to [time, 2 * hidden].

    sigmoid(x) = (1 + tanh(x / 2)) / 2, so with the halves folded into the weights one tanh serves
    all four gates.
    """

    def __init__(self, forward: LstmWeights, backward: LstmWeights) -> None:
        self.hidden = forward.hidden.shape[1]
        half = _halves(self.hidden)
        both = (forward, backward)
        self._inputs = mx.contiguous(
            mx.concatenate([half[:, None] * side.inputs for side in both]).T
        )
        self._bias = mx.concatenate([half * side.bias for side in both])
        self._steps = mx.contiguous(mx.stack([(half[:, None] * side.hidden).T for side in both]))

    def __call__(self, x: mx.array) -> mx.array:
        gates = linear(x, self._inputs, self._bias)
        gates = gates.reshape(x.shape[0], 2, 1, GATES * self.hidden)
        backward_in_time = mx.concatenate([gates[:, :1], gates[::-1, 1:]], axis=1)
        states = self._run(backward_in_time)
        return mx.concatenate([states[:, 0, 0], states[::-1, 1, 0]], axis=1)

    def _run(self, gates: mx.array) -> mx.array:
        if not on_cpu():
            return _run_mx(gates, self._steps)
        return mx.array(_run_numpy(view(gates), view(self._steps)))


def _halves(hidden: int) -> mx.array:
    half, whole = mx.full(hidden, 0.5), mx.ones(hidden)
    return mx.concatenate([half, half, whole, half])


def _run_mx(gates: mx.array, weights: mx.array) -> mx.array:
    hidden = weights.shape[1]
    h, c = mx.zeros((2, 1, hidden)), mx.zeros((2, 1, hidden))
    states = []
    for step in range(gates.shape[0]):
        i, f, g, o = mx.split(mx.tanh(gates[step] + h @ weights), GATES, axis=-1)
        c = 0.5 * ((f + 1) * c + (i + 1) * g)
        h = 0.5 * (o + 1) * mx.tanh(c)
        states.append(h)
    return mx.stack(states)


def _run_numpy(gates: Floats, weights: Floats) -> Floats:
    steps, hidden = gates.shape[0], weights.shape[1]
    states = np.empty((steps, 2, 1, hidden), np.float32)
    h, c = np.zeros((2, 1, hidden), np.float32), np.zeros((2, 1, hidden), np.float32)
    for step in range(steps):
        z = np.matmul(h, weights)
        z += gates[step]
        np.tanh(z, out=z)
        i, f, g, o = (z[..., n * hidden : (n + 1) * hidden] for n in range(GATES))
        c = 0.5 * ((f + 1) * c + (i + 1) * g)
        h = np.multiply(0.5 * (o + 1), np.tanh(c), out=states[step])
    return states
