"""Snake, then a long convolution: the operation that nearly all of a vocoder's time goes into.

On a CPU it is one pass over blocks of time that stay in a core's cache, on all cores: normalise,
snake, and the convolution by minimal filtering (Toom and Cook's algorithm, in the transposed form
that Winograd gave it), which needs half the multiplications of the sum as it is written. Elsewhere
it is the plain MLX expression. It knows nothing of the networks that use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.backend import mx, on_cpu
from models.backend.conv import Convolution
from models.backend.ops import Floats, snake, view
from models.backend.parallel import each
from models.backend.products import multiply

TILE = 4
"""Outputs, and taps, of one small filter."""
POINTS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0)
"""With infinity, seven: so many products give 4 outputs of a filter of 4 taps, instead of 16."""
PRODUCTS = len(POINTS) + 1
BLOCK = 131_072  # elements: 512 kB, which a core's cache holds beside its products


def _powers(columns: int) -> Floats:
    """Of every point, from 0 on; infinity sees the highest one alone."""
    finite = [[point**power for power in range(columns)] for point in POINTS]
    return np.array([*finite, np.eye(columns)[-1]], np.float32)


EVALUATE = _powers(TILE)
"""Four taps to their seven values at the points."""
GATHER = np.ascontiguousarray(EVALUATE.T)
"""Seven products to four outputs."""
SPREAD = np.ascontiguousarray(np.linalg.inv(_powers(PRODUCTS).astype(np.float64)).T, np.float32)
"""Seven neighbouring inputs to what their taps' values are multiplied with."""


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    stop: int


class SnakeConvolution:
    """Same length out as in; weight as published by torch: [out, in, kernel], kernel odd.

    With u = alpha * (x * scale + shift) the snake is (u + sin(u)^2) / alpha: so alpha goes into
    scale and shift, and its inverse into the filters.
    """

    def __init__(
        self, weight: mx.array, bias: mx.array, alpha: mx.array, *, dilation: int = 1
    ) -> None:
        self._alpha, self._bias, self._dilation = alpha, bias, dilation
        self._kernel = weight.shape[2]
        self._fast = on_cpu()
        if self._fast:
            self._filters = _filters(weight / alpha[:, None])
        else:
            self._plain = Convolution(
                weight, bias, dilation=dilation, padding=dilation * (self._kernel // 2)
            )

    def __call__(
        self, x: mx.array, scale: mx.array, shift: mx.array, *, added: mx.array | None = None
    ) -> mx.array:
        """``convolution(snake(x * scale + shift)) + added``; scale and shift are [1, channels]."""
        if not self._fast:
            y = self._plain(snake(x * scale + shift, self._alpha))
            return y if added is None else y + added
        y = mx.zeros((x.shape[0], self._bias.shape[0]))
        work = _Work(
            x=view(x),
            y=view(y),
            added=None if added is None else view(added),
            scale=view(scale * self._alpha),
            shift=view(shift * self._alpha),
            bias=view(self._bias),
            filters=view(self._filters),
            kernel=self._kernel,
            dilation=self._dilation,
        )
        each(work.do, work.ranges())
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One call: its arrays, [time, channels] each, and the steps for a range of time.

    Rows stand in groups of the dilation, so that one group further is one tap further; and in tiles
    of four groups, which a group of four taps turns into four groups of the output.
    """

    x: Floats
    y: Floats
    added: Floats | None
    scale: Floats
    shift: Floats
    bias: Floats
    filters: Floats
    """[product, group of taps, in, out]."""
    kernel: int
    dilation: int

    def ranges(self) -> list[Range]:
        total, unit = len(self.y), TILE * self.dilation
        count = max(1, round(total * self.x.shape[1] / BLOCK))
        count += count % 2 if count > 1 else 0
        step = -(-total // (count * unit)) * unit
        return [Range(start, min(total, start + step)) for start in range(0, total, step)]

    def do(self, part: Range) -> None:
        groups = self.filters.shape[1]
        tiles = -(-(part.stop - part.start) // (TILE * self.dilation))
        spread = self._spread(self._activated(part.start, tiles + groups))
        self._gather(self._multiplied(spread, tiles), part, tiles)

    def _activated(self, start: int, tiles: int) -> Floats:
        """[TILE, tiles, group]: from half a kernel before ``start`` on; zeros beyond both ends."""
        channels, count = self.x.shape[1], TILE * self.dilation * tiles
        first = start - self.dilation * (self.kernel // 2)
        low, high = max(0, first), min(len(self.x), first + count)
        rows = np.zeros((count, channels), np.float32)
        inside = rows[low - first : high - first]
        np.multiply(self.x[low:high], self.scale, out=inside)
        inside += self.shift
        wave = np.sin(rows)
        wave *= wave
        tiled = (tiles, TILE, self.dilation * channels)
        return np.add(*(part.reshape(tiled).transpose(1, 0, 2) for part in (rows, wave)), order="C")

    def _spread(self, rows: Floats) -> Floats:
        """[product, tile, group]: of each tile's four inputs and the three that follow."""
        _, tiles, width = rows.shape
        size = (tiles - 1) * width
        flat = rows.reshape(TILE, -1)
        spread = np.empty((PRODUCTS, size), np.float32)
        multiply(SPREAD[:, :TILE], flat[:, :size], spread)
        multiply(SPREAD[:, TILE:], flat[: TILE - 1, width:], spread, add=True)
        return spread

    def _multiplied(self, spread: Floats, tiles: int) -> Floats:
        _, groups, channels, outputs = self.filters.shape
        count = tiles * self.dilation
        products = np.empty((PRODUCTS, count, outputs), np.float32)
        for product, filters in enumerate(self.filters):
            rows = spread[product].reshape(-1, channels)
            for group in range(groups):
                first = group * self.dilation
                multiply(
                    rows[first : first + count], filters[group], products[product], add=group > 0
                )
        return products

    def _gather(self, products: Floats, part: Range, tiles: int) -> None:
        outputs = np.empty((TILE, products[0].size), np.float32)
        multiply(GATHER, products.reshape(PRODUCTS, -1), outputs)
        in_time = outputs.reshape(TILE, tiles, -1).transpose(1, 0, 2)
        y = np.ascontiguousarray(in_time).reshape(-1, self.y.shape[1])[: part.stop - part.start]
        if self.added is not None:
            y += self.added[part.start : part.stop]
        np.add(y, self.bias, out=self.y[part.start : part.stop])


def _filters(weight: mx.array) -> mx.array:
    """Every group of TILE taps, seen at the points: [product, group, in, out]."""
    outputs, inputs, kernel = weight.shape
    groups = -(-kernel // TILE)
    taps = mx.pad(weight, [(0, 0), (0, 0), (0, groups * TILE - kernel)])
    taps = taps.reshape(outputs, inputs, groups, TILE).transpose(2, 3, 1, 0)
    return mx.contiguous(mx.tensordot(mx.array(EVALUATE), taps, axes=[[1], [1]]))
