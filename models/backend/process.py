"""Makes the process ready for MLX on a Linux CPU: a fast BLAS, and an allocator that keeps pages.

Importing this module has effects, once, and only before ``mlx.core`` is loaded; nothing here may
import MLX or numpy (numpy reads the environment of its own BLAS at load time).
"""

from __future__ import annotations

import ctypes
import glob
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# glibc's mallopt parameters; without them each large MLX result is a fresh mmap and its page faults
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
MKL_INTEL_THREADS = 0  # mkl_service.h
NEVER_TRIM = 2**31 - 1  # bytes
TOP_PAD = 64 * 2**20  # bytes
OPENBLAS_GLOBS = (
    "/usr/lib/*/openblas-pthread/libopenblas*.so*",
    "/usr/lib/*/openblas-openmp/libopenblas*.so*",
    "/usr/lib*/libopenblas*.so*",
    "/usr/local/lib/libopenblas*.so*",
    "/opt/OpenBLAS/lib/libopenblas.so*",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blas:
    """The library that does MLX's matrix products on the CPU."""

    name: str
    """``mkl``, ``openblas``, ``accelerate`` or ``bundled`` (the slow reference of the wheel)."""
    path: str = ""
    library: ctypes.CDLL | None = None

    def set_threads(self, count: int) -> None:
        if self.library is not None and self.name == "mkl":
            self.library.MKL_Set_Num_Threads(count)
        elif self.library is not None:
            self.library.openblas_set_num_threads(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDnn:
    """The library for the products that models.backend does by itself (products, onednn)."""

    path: str
    library: ctypes.CDLL
    set_threads: Callable[[int], object]
    """Of the products that the calling thread asks for."""


def load_blas() -> Blas:
    """Load the first fast BLAS found, with its symbols global: MKL, then a system OpenBLAS."""
    if sys.platform == "darwin":
        return Blas(name="accelerate")
    for name, path in _candidates():
        library = _open(path, "cblas_sgemm", mode=ctypes.RTLD_GLOBAL)
        if library is not None:
            if name == "mkl":
                _give_own_threads(library)
            return Blas(name=name, path=path, library=library)
    return Blas(name="bundled")


def _give_own_threads(mkl: ctypes.CDLL) -> None:
    """Intel's OpenMP for MKL, so that GNU's is oneDNN's alone.

    MKL would share it, in threads of MLX's own; and where GNU's has more threads than there are
    cores, those that wait for the next product go to sleep at once: a step of 7 windows' decoder
    takes a fifth longer.
    """
    if "MKL_THREADING_LAYER" not in os.environ:
        mkl.MKL_Set_Threading_Layer(MKL_INTEL_THREADS)


def load_onednn() -> OneDnn | None:
    """The library with GNU's OpenMP, as the package onednn-cpu-gomp has it."""
    if sys.platform != "linux":
        return None
    for path in _files("onednn-cpu-gomp", "libdnnl.so.3"):
        library = _open(path, "dnnl_sgemm", mode=ctypes.RTLD_LOCAL)
        if library is not None:
            openmp = ctypes.CDLL("libgomp.so.1")  # the one that it has loaded
            return OneDnn(
                path=path,
                library=library,
                set_threads=openmp.omp_set_num_threads,
            )
    return None


def cpu_count() -> int:
    """CPUs this process may use: its affinity, and the container's quota where there is one."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return max(1, min(len(os.sched_getaffinity(0)), _cgroup_quota()))


def keep_pages() -> None:
    """Have glibc reuse the memory of freed arrays (adding two 72-MB arrays: 40 -> 13 ms)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        for parameter, value in (
            (M_MMAP_MAX, 0),
            (M_TRIM_THRESHOLD, NEVER_TRIM),
            (M_TOP_PAD, TOP_PAD),
        ):
            mallopt(parameter, value)


def give_back() -> None:
    """Return freed memory to the system; 20 ms, so between two pieces of work and not in one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    if trim is not None:
        trim(0)


def _candidates() -> Iterator[tuple[str, str]]:
    # The same sums bit for bit on one thread and on several; measured, it costs nothing.
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    # ms that MKL's threads spin after a product. The usual 200 takes the cores from what follows in
    # other threads: speech 2.7 -> 3.2 x real time, an 11-s clip 1.6 -> 1.35 s on two cores.
    os.environ.setdefault("KMP_BLOCKTIME", "1")
    yield from (("mkl", path) for path in _files("mkl", "libmkl_rt.so."))
    _name_openblas_core()
    for pattern in OPENBLAS_GLOBS:
        yield from (("openblas", path) for path in sorted(glob.glob(pattern)))  # noqa: PTH207 -- absolute patterns


def _files(package: str, start: str) -> Iterator[str]:
    """Where pip puts a library: the environment's lib/, or beside the distribution's record."""
    yield from map(str, sorted(Path(sys.prefix, "lib").glob(f"{start}*")))
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return
    for file in distribution.files or ():
        if file.name.startswith(start):
            yield str(Path(str(distribution.locate_file(file))).resolve())


def _name_openblas_core() -> None:
    """Choose OpenBLAS kernels by instruction set: old versions are slow on newer processors."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    except OSError:
        return
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX")
    elif {"avx2", "fma"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "HASWELL")


def _open(path: str, symbol: str, *, mode: int) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(path, mode=mode)
    except OSError:
        return None
    return library if hasattr(library, symbol) else None


def _cgroup_quota() -> int:
    """Whole CPUs of the container's quota (cgroup v2, rounded up), or as good as unlimited."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return sys.maxsize
    return sys.maxsize if quota == "max" else -(-int(quota) // int(period))


# GNU OpenMP's threads that wait for the next product give their core up after some microseconds.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("OMP_NUM_THREADS", str(cpu_count()))
BLAS = load_blas()
ONEDNN = load_onednn()
if sys.platform == "linux":
    keep_pages()
