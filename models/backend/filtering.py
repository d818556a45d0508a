"""Snake, then a long convolution: the operation that nearly all of a vocoder's time goes into.

On a CPU it is one pass over blocks of time that stay in a core's cache, on all cores: normalise,
snake, and the convolution by minimal filtering (Toom and Cook's algorithm, in the transposed form
that Winograd gave it), which needs half the multiplications of the sum as it is written. Elsewhere
it is the plain MLX expression. It knows nothing of the networks that use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.backend import mx, on_cpu
from models.backend.blas import has_blas, multiply
from models.backend.conv import Convolution
from models.backend.ops import Floats, snake, view
from models.backend.parallel import each

TILE = 4
"""Outputs, and taps, of one small filter."""
POINTS = (0.5, 1.0, 2.0)
"""Taken with both signs, and infinity: 7 products give 4 outputs of a 4-tap filter, not 16."""
PRODUCTS = 2 * len(POINTS) + 1
BLOCK = 131_072  # elements: 512 kB, which a core's cache holds beside its products


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    stop: int


class SnakeConvolution:
    """Same length out as in; weight as published by torch: [out, in, kernel], kernel odd."""

    def __init__(
        self, weight: mx.array, bias: mx.array, alpha: mx.array, *, dilation: int = 1
    ) -> None:
        self._alpha, self._bias, self._dilation = alpha, bias, dilation
        self._kernel = weight.shape[2]
        self._fast = on_cpu() and has_blas()
        if self._fast:
            self._filters = _filters(weight)
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
        mx.eval(x, scale, shift, y, self._filters, self._alpha, self._bias)
        work = _Work(
            x=view(x),
            y=view(y),
            added=None if added is None else view(added),
            scale=view(scale),
            shift=view(shift),
            alpha=view(self._alpha),
            bias=view(self._bias),
            filters=view(self._filters),
            kernel=self._kernel,
            dilation=self._dilation,
        )
        each(work.do, work.ranges())
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One call: its arrays, [time, channels] each, and the steps for a range of time."""

    x: Floats
    y: Floats
    added: Floats | None
    scale: Floats
    shift: Floats
    alpha: Floats
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
        """Rows stand in groups of the dilation: one group further is one tap further."""
        groups, width = self.filters.shape[1], self.dilation * self.x.shape[1]
        tiles = -(-(part.stop - part.start) // (TILE * self.dilation))
        rows = self._activated(part.start, TILE * self.dilation * (tiles + groups))
        inputs = _spread(rows.reshape(tiles + groups, TILE, width), tiles + groups - 1)
        products = self._multiplied(inputs, tiles)
        outputs = _gathered(products.reshape(PRODUCTS, tiles, -1))
        y = outputs.reshape(-1, self.y.shape[1])[: part.stop - part.start]
        y += self.bias
        if self.added is not None:
            y += self.added[part.start : part.stop]
        self.y[part.start : part.stop] = y

    def _activated(self, start: int, count: int) -> Floats:
        """Snake of the rows from half a kernel before ``start`` on; zeros beyond both ends."""
        first = start - self.dilation * (self.kernel // 2)
        low, high = max(0, first), min(len(self.x), first + count)
        rows = np.zeros((count, self.x.shape[1]), np.float32)
        inside = rows[low - first : high - first]
        np.multiply(self.x[low:high], self.scale, out=inside)
        inside += self.shift
        wave = inside * self.alpha
        np.sin(wave, out=wave)
        wave *= wave
        wave /= self.alpha
        inside += wave
        return rows

    def _multiplied(self, inputs: Floats, tiles: int) -> Floats:
        _, groups, channels, outputs = self.filters.shape
        count = tiles * self.dilation
        products = np.empty((PRODUCTS, count, outputs), np.float32)
        for product, filters in enumerate(self.filters):
            rows = inputs[product].reshape(-1, channels)
            for group in range(groups):
                first = group * self.dilation
                multiply(
                    rows[first : first + count], filters[group], products[product], add=group > 0
                )
        return products


def _filters(weight: mx.array) -> mx.array:
    """Every group of TILE taps, seen at the points: [product, group, in, out]."""
    outputs, inputs, kernel = weight.shape
    groups = -(-kernel // TILE)
    taps = mx.pad(weight, [(0, 0), (0, 0), (0, groups * TILE - kernel)])
    taps = taps.reshape(outputs, inputs, groups, TILE).transpose(2, 3, 1, 0)
    matrix = mx.array(_evaluation().astype(np.float32))
    seen = mx.tensordot(matrix, taps, axes=[[1], [1]])
    return mx.contiguous(seen)


def _evaluation() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Powers of each point over the denominator of its Lagrange polynomial."""
    rows = [
        signed ** np.arange(TILE) / (_slope(point) if signed > 0 else -_slope(point))
        for point in POINTS
        for signed in (point, -point)
    ]
    return np.array([*rows, np.eye(TILE)[-1]])


def _slope(point: float) -> float:
    """Of the product of (x - p) over all points, at one of them."""
    others = [other for other in POINTS if other != point]
    return 2 * point * math.prod(point**2 - other**2 for other in others)


def _spread(rows: Floats, count: int) -> Floats:
    """Each tile of rows, and the three after it, as its values towards the points.

    For points a and -a: odd +- a * even, where even and odd are one polynomial in a^2 of the rows
    of even and of odd place; for infinity, the product of all (x^2 - a^2).
    """
    x = [rows[n // TILE : n // TILE + count, n % TILE] for n in range(2 * TILE - 1)]
    spread = np.empty((PRODUCTS, count, rows.shape[2]), np.float32)
    scratch, even = np.empty_like(spread[0]), np.empty_like(spread[0])
    for n, point in enumerate(POINTS):
        b, c = (other**2 for other in POINTS if other != point)
        odd, other = spread[2 * n], spread[2 * n + 1]
        _quadratic(x[0], x[2], x[4], b, c, out=even, scratch=scratch)
        _quadratic(x[1], x[3], x[5], b, c, out=odd, scratch=scratch)
        if point != 1:
            even *= point
        np.subtract(odd, even, out=other)
        odd += even
    a, b, c = (point**2 for point in POINTS)
    last = spread[-1]
    _quadratic(x[2], x[4], x[6], b, c, out=last, scratch=scratch)
    _quadratic(x[0], x[2], x[4], b, c, out=even, scratch=scratch)
    even *= a
    last -= even
    return spread


def _quadratic(
    x: Floats, y: Floats, z: Floats, b: float, c: float, *, out: Floats, scratch: Floats
) -> None:
    """Coefficients of (t - b)(t - c), applied to three rows."""
    np.multiply(y, np.float32(-(b + c)), out=out)
    out += z
    if b * c == 1:
        out += x
    else:
        np.multiply(x, np.float32(b * c), out=scratch)
        out += scratch


def _gathered(products: Floats) -> Floats:
    """Four outputs of each tile: sums over the points, weighted with their powers 0 to 3."""
    tiles, width = products.shape[1:]
    y = np.empty((tiles, TILE, width), np.float32)
    scratch = np.empty((tiles, width), np.float32)
    sums, differences = [], []
    for n in range(len(POINTS)):
        plus, minus = products[2 * n], products[2 * n + 1]
        np.subtract(plus, minus, out=scratch)
        plus += minus
        minus[:] = scratch
        sums.append(plus)
        differences.append(minus)
    for power, terms in enumerate((sums, differences, sums, differences)):
        target = y[:, power]
        if power == TILE - 1:
            target[:] = products[-1]
        for n, (point, term) in enumerate(zip(POINTS, terms, strict=True)):
            weighted = term
            if power and point != 1:
                weighted = np.multiply(term, np.float32(point**power), out=scratch)
            if n == 0 and power < TILE - 1:
                target[:] = weighted
            else:
                target += weighted
    return y
