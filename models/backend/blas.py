"""Products of matrices straight from the BLAS that MLX uses, for loops that work block by block.

A block of a waveform is too small a piece for a graph of MLX operations to be worth its overhead;
the library that MLX would have called is called on the same memory instead. CPU only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from models.backend.ops import Floats
from models.backend.process import BLAS

ROW_MAJOR, PLAIN = 101, 111  # CBLAS's own numbers

Gemm = Callable[[Floats, Floats, Floats, float], None]


def has_blas() -> bool:
    return BLAS.library is not None


def multiply(a: Floats, b: Floats, out: Floats, *, add: bool = False) -> None:
    """``out = a @ b``, or ``out += a @ b``; rows may be apart, columns may not."""
    rows, inner = a.shape
    columns = b.shape[1]
    _sgemm()(
        ROW_MAJOR,
        PLAIN,
        PLAIN,
        rows,
        columns,
        inner,
        1.0,
        a.ctypes.data,
        a.strides[0] // a.itemsize,
        b.ctypes.data,
        b.strides[0] // b.itemsize,
        1.0 if add else 0.0,
        out.ctypes.data,
        out.strides[0] // out.itemsize,
    )


@cache
def _sgemm() -> Callable[..., None]:
    if BLAS.library is None:
        raise RuntimeError("no BLAS was loaded: see models.backend.process")
    function = BLAS.library.cblas_sgemm
    size, real, data = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    function.argtypes = [size] * 6 + [real, data, size, data, size, real, data, size]
    function.restype = None
    return function
