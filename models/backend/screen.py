"""The largest of many products without making them all: a look in bytes, then the few that count.

A decoder's step multiplies by a whole vocabulary to find one token. In bytes that is a quarter of
the memory to read, and each product is then known within a bound (Cauchy and Schwarz):
``|x w - x' w'| <= |x'| |w - w'| + |x - x'| |w|``, with w in 8 bits and x in 16. Only what could be
the largest within it is multiplied as it is: two columns of 51,865 on average. So the largest is
certain, and the others are off by a tenth or so. CPU only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.backend.int8 import Int8Matrix
from models.backend.products import Floats, multiply

MANY = 256  # columns that are worth gathering; beyond that a row is multiplied whole
SLACK = 1e-3  # more than float32's rounding adds to the bound


class Screen:
    def __init__(self, matrix: Floats) -> None:
        """Of a matrix (n, m), some columns of which are read again later."""
        self.matrix = matrix
        self.rounded = Int8Matrix.rounded(matrix)
        self.lengths = _lengths(matrix.T)
        self.widest = float(self.rounded.error.max()), float(self.lengths.max())

    def glance(self, x: Floats) -> Glance:
        """At ``x @ matrix``: x (rows, n)."""
        values, used = self.rounded.multiply_closely(x)
        return Glance(self, x, values, _lengths(used), _lengths(x - used))


@dataclass(frozen=True, slots=True)
class Glance:
    """Products (rows, m) within their bounds."""

    screen: Screen
    rows: Floats
    values: Floats
    """May be written to: -inf takes an entry out of the contest."""
    length: Floats
    """(rows,): |x'|."""
    error: Floats
    """(rows,): |x - x'|."""

    def settle(self) -> None:
        """Make exact whatever could be the largest of its row."""
        matrix = self.screen.matrix
        for row, (x, values) in enumerate(zip(self.rows, self.values, strict=True)):
            columns = self._contenders(row)
            if len(columns) <= MANY:
                values[columns] = x @ matrix[:, columns]
                continue
            out = np.empty((1, len(values)), np.float32)
            multiply(x.reshape(1, -1), matrix, out)
            np.copyto(values, out[0], where=values > -np.inf)

    def _contenders(self, row: int) -> NDArray[np.intp]:
        """A first cut with the widest bound, a second one with each column's own."""
        values = self.values[row]
        best = np.array([values.argmax()])
        least = values[best] - self._bounds(row, best)
        error, length = self.screen.widest
        widest = self.length[row] * error + self.error[row] * length + SLACK
        columns = np.flatnonzero(values >= least - widest)
        close: NDArray[np.bool_] = values[columns] >= least - self._bounds(row, columns)
        return columns[close]

    def _bounds(self, row: int, columns: NDArray[np.intp]) -> Floats:
        error, length = self.screen.rounded.error[columns], self.screen.lengths[columns]
        bounds: Floats = self.length[row] * error + self.error[row] * length + SLACK
        return bounds


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.vecdot(rows, rows))
    return lengths
