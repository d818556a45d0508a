"""Which hardware MLX runs on, how fast it multiplies, and how many threads its products use."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import mlx.core as mx
from threadpoolctl import ThreadpoolController

from models.backend.process import BLAS, ONEDNN, cpu_count
from models.backend.products import LIBRARY

SLOW_GFLOPS = 16.0  # one core: reference loops do 4, any vectorised BLAS over 40
CACHE_BYTES = 64 * 2**20  # of freed arrays that MLX keeps on a CPU: each new shape adds to them
logger = logging.getLogger(__name__)
_in_use: list[int] = []  # BLAS threads of the blocks that are open, innermost last


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    device: Literal["metal", "cuda", "cpu"]
    blas: str
    """Library behind the matrix products, and its file; both empty on a GPU."""
    blas_path: str
    onednn_path: str
    """Of the library that multiplies what has few rows; empty where the BLAS does that too."""
    vector_math: Literal["numpy", "mlx"]
    """What computes exponentials and their like (models.backend.ops)."""
    threads: int
    """CPU threads for products and vector functions."""


@cache
def backend() -> Backend:
    device = _device()
    cpu = device == "cpu"
    return Backend(
        device=device,
        blas=BLAS.name if cpu else "",
        blas_path=BLAS.path if cpu else "",
        onednn_path=ONEDNN.path if cpu and ONEDNN else "",
        vector_math="numpy" if cpu else "mlx",
        threads=cpu_count(),
    )


def on_cpu() -> bool:
    return backend().device == "cpu"


def gflops(size: int = 1024, repeats: int = 3) -> float:
    """Best measured rate of a float32 product of two square matrices, in GFLOP/s."""
    a = mx.full((size, size), 0.5)
    mx.eval(a)
    return 2 * size**3 / min(_seconds(a) for _ in range(repeats + 1)) / 1e9


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Products of the whole process use ``count`` threads within the block; blocks may nest."""
    before = _in_use[-1] if _in_use else backend().threads
    _in_use.append(count)
    BLAS.set_threads(count)
    try:
        yield
    finally:
        _in_use.pop()
        BLAS.set_threads(before)


def _device() -> Literal["metal", "cuda", "cpu"]:
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else "cpu"


def _seconds(a: mx.array) -> float:
    start = time.perf_counter()
    mx.eval(a @ a)
    return time.perf_counter() - start


def _set_up_cpu() -> None:
    BLAS.set_threads(backend().threads)
    if LIBRARY != "numpy":
        _calm_numpy()
    mx.set_cache_limit(CACHE_BYTES)
    with blas_threads(1):  # threads that wait for each other on a busy machine would mislead
        rate = gflops(size=256)
    if rate < SLOW_GFLOPS:
        logger.warning(
            "MLX multiplies at %.0f GFLOP/s with the %s BLAS: for up to 60 times that, install "
            "the package 'mkl' (x86-64) or OpenBLAS (Debian: libopenblas0-pthread)",
            rate,
            BLAS.name,
        )


def _calm_numpy() -> None:
    """One thread for the BLAS in NumPy's wheel, which only small products are left to.

    Its others keep a core for some 20 ms after each larger product: with the prompts of 8 windows,
    everything else in that step took three times as long (240 -> 90 ms).
    """
    ThreadpoolController().select(prefix="libscipy_openblas").limit(limits=1)


if on_cpu():
    _set_up_cpu()
