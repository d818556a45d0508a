"""Products of matrices on NumPy views, into memory that is there already. CPU only.

MLX allocates each result, and on some processors its BLAS is slow where a matrix has few rows, as a
decoder's have (8 rows of 512 by a vocabulary, two cores of an EPYC 9004: MKL 14.4 ms, oneDNN 6.1).
So the steps of models.backend that matter multiply through oneDNN where it is installed, else
through the BLAS that MLX uses, else through NumPy's, on the arrays' own memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import c_char, c_float, c_int, c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from models.backend.process import BLAS, ONEDNN, cpu_count

Floats = NDArray[np.float32]
Gemm = Callable[[Floats, Floats, Floats, float], object]
"""a, b, out, beta: ``out[:] = a @ b + beta * out``."""
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # cblas.h
ITEM = 4  # bytes of a float32
SMALL = 2**20  # multiplications, some 20 us: below it a second thread costs more than it takes over


def multiply(a: Floats, b: Floats, out: Floats, *, add: bool = False) -> None:
    """``out[:] = a @ b``, or ``out += a @ b``: float32 matrices.

    a and b are contiguous along one axis, out along its rows.
    """
    _gemm(a, b, out, 1.0 if add else 0.0)


def use_one_thread() -> None:
    """From here on in the calling thread."""
    _thread.limit = 1


def threads_for(multiplications: int) -> int:
    """Threads worth having for a product that the calling thread asks for."""
    return 1 if multiplications < SMALL else _thread.limit


class _Thread(threading.local):
    limit = cpu_count()


_thread = _Thread()


def _onednn() -> Gemm:
    if ONEDNN is None:
        raise RuntimeError("oneDNN is not installed")
    sgemm, set_threads = ONEDNN.library.dnnl_sgemm, ONEDNN.set_threads
    sgemm.restype = c_int
    sgemm.argtypes = [
        c_char, c_char, *(c_int64,) * 3, c_float, c_void_p, c_int64, c_void_p, c_int64,
        c_float, c_void_p, c_int64,
    ]  # fmt: skip

    def gemm(a: Floats, b: Floats, out: Floats, beta: float) -> None:
        (flip_a, step_a), (flip_b, step_b) = _layout(a), _layout(b)
        set_threads(threads_for(out.size * a.shape[1]))
        status = sgemm(
            b"T" if flip_a else b"N", b"T" if flip_b else b"N", *out.shape, a.shape[1],
            1.0, a.ctypes.data, step_a, b.ctypes.data, step_b,
            beta, out.ctypes.data, out.strides[0] // ITEM,
        )  # fmt: skip
        if status:
            raise ValueError(
                f"oneDNN cannot multiply {a.shape} of strides {a.strides} by {b.shape}"
            )

    return gemm


def _blas() -> Gemm:
    if BLAS.library is None:
        raise RuntimeError("no BLAS was loaded")
    sgemm = BLAS.library.cblas_sgemm
    sgemm.restype = None
    sgemm.argtypes = [
        *(c_int,) * 6, c_float, c_void_p, c_int, c_void_p, c_int, c_float, c_void_p, c_int
    ]  # fmt: skip

    def gemm(a: Floats, b: Floats, out: Floats, beta: float) -> None:
        (flip_a, step_a), (flip_b, step_b) = _layout(a), _layout(b)
        sgemm(
            ROW_MAJOR, TRANSPOSED if flip_a else AS_IT_IS, TRANSPOSED if flip_b else AS_IT_IS,
            *out.shape, a.shape[1], 1.0, a.ctypes.data, step_a, b.ctypes.data, step_b,
            beta, out.ctypes.data, out.strides[0] // ITEM,
        )  # fmt: skip

    return gemm


def _numpy() -> Gemm:
    def gemm(a: Floats, b: Floats, out: Floats, beta: float) -> None:
        out[:] = a @ b + beta * out if beta else a @ b

    return gemm


def _layout(x: Floats) -> tuple[bool, int]:
    """Whether it must be transposed, and the elements from one of its lines to the next."""
    rows, columns = x.strides
    return (False, rows // ITEM) if columns == ITEM else (True, columns // ITEM)


GEMMS: dict[str, Callable[[], Gemm]] = {"onednn": _onednn, "blas": _blas, "numpy": _numpy}
LIBRARY = "onednn" if ONEDNN is not None else "blas" if BLAS.library is not None else "numpy"
_gemm = GEMMS[LIBRARY]()
