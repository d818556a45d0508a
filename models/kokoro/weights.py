"""Kokoro's tensors by their published names: found, checked, unfolded from weight norm, in float32.

Whoever builds a layer asks for the tensors it needs and the shapes it needs them in; what is
missing, left over or of another shape is told in one error at the end. It knows nothing of what the
layers compute.
"""

from __future__ import annotations

from pathlib import Path

from models.backend import mx
from models.backend.conv import Convolution, TransposedConvolution
from models.backend.recurrent import BidirectionalLstm, LstmWeights
from models.base import CheckpointError

UNUSED_PREFIX = "bert.pooler."
"""Published, but no part of the forward pass."""
BUFFER = "position_ids"
"""A constant that some exports store along with the weights."""
TOLD = 12
"""Tensors named in an error; the rest is counted."""


class Weights:
    def __init__(self, tensors: dict[str, mx.array], *, source: str) -> None:
        self._left = {name: value for name, value in tensors.items() if _needed(name)}
        self._source = source
        self._faults: list[str] = []

    @classmethod
    def read(cls, path: Path) -> Weights:
        try:
            tensors = mx.load(str(path))
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{path}: {error}") from error
        if not isinstance(tensors, dict):
            raise CheckpointError(f"{path}: holds no named tensors")
        return cls(tensors, source=str(path))

    def take(self, name: str, *shape: int) -> mx.array:
        """The tensor in float32; zeros in its place where it is at fault, until ``finish``."""
        tensor = self._left.pop(name, None)
        if tensor is None:
            self._faults.append(f"{name} is missing")
            return mx.zeros(shape)
        if tensor.shape != shape:
            self._faults.append(f"{name} is {list(tensor.shape)}, expected {list(shape)}")
            return mx.zeros(shape)
        return tensor.astype(mx.float32)

    def finish(self) -> None:
        faults = self._faults + [f"{name} is unknown" for name in sorted(self._left)]
        if not faults:
            return
        more = f"; and {len(faults) - TOLD} more" if len(faults) > TOLD else ""
        raise CheckpointError(f"{self._source}: {'; '.join(faults[:TOLD])}{more}")

    def linear(self, name: str, inputs: int, outputs: int) -> tuple[mx.array, mx.array]:
        """Weight as [in, out], for plain row-major products, and bias."""
        weight = self.take(f"{name}.weight", outputs, inputs)
        return mx.contiguous(weight.T), self.take(f"{name}.bias", outputs)

    def unfolded(self, name: str, *shape: int) -> mx.array:
        """A weight-normed tensor: g * v / ||v||, the norm taken over all axes but the first."""
        gain = self.take(f"{name}.weight_g", shape[0], *(1 for _ in shape[1:]))
        value = self.take(f"{name}.weight_v", *shape)
        norm = mx.sqrt(mx.sum(value * value, axis=tuple(range(1, len(shape))), keepdims=True))
        return value * (gain / mx.maximum(norm, 1e-12))

    def convolution(
        self,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        padding: int = 0,
        bias: bool = True,
        normed: bool = True,
    ) -> Convolution:
        shape = (outputs, inputs, kernel)
        return Convolution(
            self.unfolded(name, *shape) if normed else self.take(f"{name}.weight", *shape),
            self.take(f"{name}.bias", outputs) if bias else None,
            stride=stride,
            dilation=dilation,
            padding=padding,
        )

    def transposed(
        self, name: str, inputs: int, outputs: int, kernel: int, *, stride: int
    ) -> TransposedConvolution:
        return TransposedConvolution(
            self.unfolded(name, inputs, outputs, kernel),
            self.take(f"{name}.bias", outputs),
            stride=stride,
            padding=(kernel - stride) // 2,
        )

    def lstm(self, name: str, inputs: int, hidden: int) -> BidirectionalLstm:
        return BidirectionalLstm(
            self._direction(name, "", inputs, hidden),
            self._direction(name, "_reverse", inputs, hidden),
        )

    def _direction(self, name: str, suffix: str, inputs: int, hidden: int) -> LstmWeights:
        return LstmWeights(
            inputs=self.take(f"{name}.weight_ih_l0{suffix}", 4 * hidden, inputs),
            hidden=self.take(f"{name}.weight_hh_l0{suffix}", 4 * hidden, hidden),
            bias=self.take(f"{name}.bias_ih_l0{suffix}", 4 * hidden)
            + self.take(f"{name}.bias_hh_l0{suffix}", 4 * hidden),
        )


def _needed(name: str) -> bool:
    return not name.startswith(UNUSED_PREFIX) and not name.endswith(BUFFER)
