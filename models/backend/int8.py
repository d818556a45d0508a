"""Matrices in 8 bits, for a CPU that multiplies bytes four at a time (AVX-512 or AVX with VNNI).

A product takes a third of the time of one of float32, and where it has few rows, which is reading
the matrix from memory, a quarter. Each output has a scale of its own, and each row of what is
multiplied gets one, so a result is off by about one in 200 of the row's largest values. Only what a
checkpoint holds in few bits anyway is computed like this; models.backend.screen only looks so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.backend.onednn import Packed
from models.backend.process import ONEDNN
from models.backend.products import Floats

LIMIT = 127  # of a signed byte, kept the same on both sides
BYTE = 256
ROUNDED = 2048  # outputs at a time: a vocabulary's scratch would be several times its matrix
INSTRUCTIONS = {"avx512_vnni", "avx_vnni"}


def _has_instructions() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return not INSTRUCTIONS.isdisjoint(text.split())


AVAILABLE = ONEDNN is not None and _has_instructions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Matrix:
    """A matrix of n inputs and m outputs."""

    packed: Packed
    rows: NDArray[np.int8] | None
    """(m, n): one row for each output, where single ones are wanted."""
    scale: Floats
    """(m,): of each output."""
    error: Floats
    """(m,): the length of what rounding took from each output's column."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.packed.shape

    @classmethod
    def rounded(cls, matrix: Floats, *, keep_rows: bool = False) -> Int8Matrix:
        """The nearest bytes to a float32 matrix (n, m), in whatever order that lies in memory."""
        inputs, outputs = matrix.shape
        rows = np.empty((outputs, inputs), np.int8)
        scale, error = np.empty((2, outputs), np.float32)
        for start in range(0, outputs, ROUNDED):
            part = slice(start, start + ROUNDED)
            exact = np.ascontiguousarray(matrix[:, part].T)
            step = np.abs(exact).max(axis=1, keepdims=True) / LIMIT
            step[step == 0] = 1
            rows[part], scale[part] = np.rint(exact / step), step[:, 0]
            taken = exact - rows[part] * step
            error[part] = np.sqrt(np.vecdot(taken, taken))
        return cls(
            packed=Packed(rows.T, scale),
            rows=rows if keep_rows else None,
            scale=scale,
            error=error,
        )

    def columns(self, numbers: NDArray[np.integer]) -> Floats:
        """Of the matrix, as float32: (..., n)."""
        if self.rows is None:
            raise ValueError("the rows were not kept")
        chosen: Floats = self.rows[numbers] * self.scale[numbers][..., None]
        return chosen

    def multiply(self, x: Floats) -> Floats:
        """``x @ self``: x (rows, n) in float32, as is the result (rows, m)."""
        largest = np.abs(x).max(axis=1, keepdims=True)
        largest[largest == 0] = 1
        out = self.packed.multiply(np.rint(x * (LIMIT / largest)).astype(np.int8))
        out *= largest / LIMIT
        return out

    def multiply_closely(self, x: Floats) -> tuple[Floats, Floats]:
        """``x' @ self`` and x', which is x in 16 bits: its two bytes as two rows of one product."""
        step = np.abs(x).max(axis=1, keepdims=True) / (LIMIT * BYTE)
        step[step == 0] = 1
        whole = np.rint(x / step)
        high = np.floor((whole + BYTE // 2) / BYTE)
        both = self.packed.multiply(np.concatenate([high, whole - BYTE * high]).astype(np.int8))
        out, low = np.split(both, 2)
        out *= BYTE
        out += low
        out *= step
        return out, whole * step
