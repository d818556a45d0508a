"""Matrices in 8 bits, for a CPU that multiplies bytes four at a time (AVX-512 or AVX with VNNI).

A product takes a third of the time of one of float32, and where it has few rows, which is reading
the matrix from memory, a quarter. Each output has a scale of its own, and each row of what is
multiplied gets one, so a result is off by about one in 200 of the row's largest values. Only what a
checkpoint holds in few bits anyway is kept like this.
"""

from __future__ import annotations

from ctypes import c_char, c_float, c_int, c_int8, c_int64, c_uint8, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.backend.process import ONEDNN
from models.backend.products import Floats, threads_for

LIMIT = 127  # of a signed byte, kept the same on both sides
MIDDLE = 128  # what an unsigned byte says for zero
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

    rows: NDArray[np.int8]
    """(m, n): one row for each output."""
    scale: Floats
    """(m,): of each output."""
    offset: NDArray[np.int32]
    """(m,): what the middle of the unsigned bytes adds to each output, negated."""

    @property
    def shape(self) -> tuple[int, int]:
        outputs, inputs = self.rows.shape
        return inputs, outputs

    @classmethod
    def rounded(cls, matrix: Floats) -> Int8Matrix:
        """The nearest bytes to a float32 matrix (n, m), in whatever order that lies in memory."""
        inputs, outputs = matrix.shape
        rows, scale = np.empty((outputs, inputs), np.int8), np.empty(outputs, np.float32)
        for start in range(0, outputs, ROUNDED):
            part = slice(start, start + ROUNDED)
            exact = np.ascontiguousarray(matrix[:, part].T)
            step = np.abs(exact).max(axis=1, keepdims=True) / LIMIT
            step[step == 0] = 1
            rows[part], scale[part] = np.rint(exact / step), step[:, 0]
        return cls(rows=rows, scale=scale, offset=-MIDDLE * rows.sum(axis=1, dtype=np.int32))

    def columns(self, numbers: NDArray[np.integer]) -> Floats:
        """Of the matrix, as float32: (..., n)."""
        chosen: Floats = self.rows[numbers] * self.scale[numbers][..., None]
        return chosen

    def multiply(self, x: Floats) -> Floats:
        """``x @ self``: x (rows, n) in float32, as is the result (rows, m)."""
        inputs, outputs = self.shape
        largest = np.abs(x).max(axis=1, keepdims=True)
        largest[largest == 0] = 1
        scaled = x * (LIMIT / largest)
        scaled += MIDDLE + 0.5  # cutting off what follows the point then rounds
        given, sums = scaled.astype(np.uint8), np.empty((len(x), outputs), np.int32)
        if ONEDNN is None:
            raise RuntimeError("oneDNN is not installed")
        ONEDNN.set_threads(threads_for(sums.size * inputs // 4))
        ONEDNN.gemm_u8s8s32(
            b"N", b"T", b"R", len(x), outputs, inputs, 1.0,
            given.ctypes.data, inputs, 0,
            self.rows.ctypes.data, inputs, 0,
            0.0, sums.ctypes.data, outputs, self.offset.ctypes.data,
        )  # fmt: skip
        out = sums.astype(np.float32)
        out *= self.scale
        out *= largest / LIMIT
        return out


if ONEDNN is not None:
    ONEDNN.gemm_u8s8s32.restype = c_int
    ONEDNN.gemm_u8s8s32.argtypes = [
        c_char, c_char, c_char, c_int64, c_int64, c_int64, c_float, c_void_p, c_int64, c_uint8,
        c_void_p, c_int64, c_int8, c_float, c_void_p, c_int64, c_void_p,
    ]  # fmt: skip
