"""One-dimensional convolutions over channels-last waveforms of features, shape [time, channels].

On a CPU, MLX runs a fast product only for some convolutions and a scalar loop for the others
(dilated, transposed), so there they are written as products of matrices: one for each tap. On a GPU
they are MLX's own. Whoever calls need not know which.
"""

from __future__ import annotations

import numpy as np

from models.backend import mx, on_cpu
from models.backend.ops import linear, view
from models.backend.products import multiply


class Convolution:
    """Weight as published by torch: [out, in, kernel]."""

    def __init__(
        self,
        weight: mx.array,
        bias: mx.array | None,
        *,
        stride: int = 1,
        dilation: int = 1,
        padding: int = 0,
    ) -> None:
        self.kernel = weight.shape[2]
        self.stride, self.dilation, self.padding = stride, dilation, padding
        self._bias = mx.zeros(weight.shape[0]) if bias is None else bias
        self._taps = mx.contiguous(weight.transpose(2, 1, 0))

    def __call__(self, x: mx.array) -> mx.array:
        return self._by_taps(x) if on_cpu() else self._plain(x)

    def _plain(self, x: mx.array) -> mx.array:
        weight = self._taps.transpose(2, 0, 1)
        return mx.conv1d(x[None], weight, self.stride, self.padding, self.dilation)[0] + self._bias

    def _by_taps(self, x: mx.array) -> mx.array:
        padded = view(mx.pad(x, [(self.padding, self.padding), (0, 0)]))
        reach = self.dilation * (self.kernel - 1)
        steps = (len(padded) - reach - 1) // self.stride + 1
        span = self.stride * (steps - 1) + 1
        y = np.empty((steps, self._bias.shape[0]), np.float32)
        y[:] = view(self._bias)
        for tap, weight in enumerate(view(self._taps)):
            first = tap * self.dilation
            multiply(padded[first : first + span : self.stride], weight, y, add=True)
        return mx.array(y)


class TransposedConvolution:
    """Weight as published by torch: [in, out, kernel]; the kernel is a multiple of the stride."""

    def __init__(self, weight: mx.array, bias: mx.array, *, stride: int, padding: int) -> None:
        inputs, self._outputs, kernel = weight.shape
        self.stride, self.padding = stride, padding
        self._pieces = kernel // stride
        self._bias = bias
        self._weight = mx.contiguous(weight.transpose(0, 2, 1).reshape(inputs, -1))

    def __call__(self, x: mx.array) -> mx.array:
        steps = x.shape[0]
        pieces = linear(x, self._weight).reshape(steps, self._pieces, self.stride * self._outputs)
        shifted = [
            mx.pad(pieces[:, shift], [(shift, self._pieces - 1 - shift), (0, 0)])
            for shift in range(self._pieces)
        ]
        y = sum(shifted[1:], shifted[0]).reshape(-1, self._outputs)
        return y[self.padding : y.shape[0] - self.padding] + self._bias
