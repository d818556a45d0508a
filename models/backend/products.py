"""Matrix products of the loaded BLAS on NumPy views, into memory that is there already.

MLX allocates each result; where a product's result is used up at once, writing it to the same
scratch keeps it in a core's cache. Only for steps of models.backend.ops that earn it.
"""

from __future__ import annotations

from ctypes import c_float, c_int, c_void_p

import numpy as np
from numpy.typing import NDArray

from models.backend.process import BLAS

Floats = NDArray[np.float32]
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # cblas.h
ITEM = 4  # bytes of a float32
AVAILABLE = BLAS.library is not None

if BLAS.library is not None:
    BLAS.library.cblas_sgemm.restype = None
    BLAS.library.cblas_sgemm.argtypes = [
        *(c_int,) * 6, c_float, c_void_p, c_int, c_void_p, c_int, c_float, c_void_p, c_int
    ]  # fmt: skip


def multiply(a: Floats, b: Floats, out: Floats) -> None:
    """``out[:] = a @ b``: float32 matrices; a and b contiguous along one axis, out along rows."""
    if BLAS.library is None:
        np.matmul(a, b, out=out)
        return
    (order_a, step_a), (order_b, step_b) = _layout(a), _layout(b)
    BLAS.library.cblas_sgemm(
        ROW_MAJOR, order_a, order_b, *out.shape, a.shape[1],
        1.0, a.ctypes.data, step_a, b.ctypes.data, step_b,
        0.0, out.ctypes.data, out.strides[0] // ITEM,
    )  # fmt: skip


def _layout(x: Floats) -> tuple[int, int]:
    """Whether BLAS must transpose it, and the elements from one of its lines to the next."""
    rows, columns = x.strides
    return (AS_IT_IS, rows // ITEM) if columns == ITEM else (TRANSPOSED, columns // ITEM)
