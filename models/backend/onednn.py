"""Products by oneDNN's primitives: a matrix is packed once, in the layout that its kernels read.

Where there are few rows a packed matrix is read at the speed of the memory (7 rows of 512 by a
vocabulary, two cores of an EPYC 9004: 6.4 -> 4.0 ms; in bytes 2.7 -> 1.0), and a bias, GELU or sum
is done while the result is in a core's cache. Packing takes 2 ms for 512 x 2048 numbers.

Rows are normalised seven times as fast as by NumPy. A primitive is made for one shape (0.1 ms) and
stays with the thread that made it, which owns its scratch memory. Names and numbers are of oneDNN
3's dnnl.h and dnnl_types.h.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from ctypes import CDLL, Structure, byref, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.backend.process import ONEDNN
from models.backend.products import Floats, threads_for

AVAILABLE = ONEDNN is not None
CPU, IN_ORDER, ANY_LAYOUT, INFERENCE = 1, 1, 1, 96
FLOATS = np.dtype(np.float32)
TYPES = {FLOATS: 3, np.dtype(np.int8): 5}
WEIGHTS_QUERY = 131
SOURCE, RESULT, WEIGHTS, BIAS, SCALES = 1, 17, 33, 41, 4096
GELU = 0x31  # with the error function; within 1.2e-6
BY_COLUMN = 2  # a bit for the second dimension
ROWS = 8  # for which layouts are chosen; they serve any number as well as MKL does
KEPT = 128  # primitives of a kind in each thread; some 50 kB each, and one for each number of rows
NORM_WORK = 4  # multiplications that take as long as a normalised value does
CACHE_LINE = 64  # bytes


class Packed:
    """A matrix (n, m) of float32, or of int8 with a float32 scale for each column."""

    def __init__(self, matrix: NDArray[np.generic], scale: Floats | None = None) -> None:
        """``matrix`` is contiguous along one axis."""
        self.shape: tuple[int, int] = matrix.shape[0], matrix.shape[1]
        self.dtype = matrix.dtype
        self._layout = _layout(*self.shape, self.dtype)
        given = _descriptor(self.shape, self.dtype, matrix.strides)
        self._memory = np.empty(self._layout.size + CACHE_LINE, np.uint8)
        start = self._memory.ctypes.data
        self._pointer = start + -start % CACHE_LINE
        self._scale = scale
        self._scale_pointer = 0 if scale is None else scale.ctypes.data
        described = _make(
            "primitive_desc", "reorder_primitive_desc_create",
            given, _engine(), self._layout.descriptor, _engine(), None,
        )  # fmt: skip
        arguments = {SOURCE: given, RESULT: self._layout.descriptor}
        _Primitive(described, arguments, threads=1).run(matrix.ctypes.data, self._pointer)

    def multiply(
        self,
        x: NDArray[np.generic],
        *,
        bias: Floats | None = None,
        added: Floats | None = None,
        gelu: bool = False,
    ) -> Floats:
        """``x @ self + bias``, then GELU of it, then ``+ added``.

        x (rows, n) of this matrix's type and added are contiguous, as is the result (rows, m) in
        float32.
        """
        rows, (inputs, outputs) = len(x), self.shape
        out = np.empty((rows, outputs), np.float32) if added is None else added.copy()
        threads = threads_for(rows * inputs * outputs)
        wanted = _Wanted(self._layout, rows, threads, bias is not None, gelu, added is not None)
        _mine.product(wanted).run(
            x.ctypes.data,
            out.ctypes.data,
            self._pointer,
            *([] if bias is None else [bias.ctypes.data]),
            *([self._scale_pointer] if self._scale_pointer else []),
        )
        return out


def normalise(x: Floats, epsilon: float) -> Floats:
    """The rows (n, size) with mean 0 and variance 1; x is contiguous."""
    out = np.empty_like(x)
    threads = threads_for(NORM_WORK * x.size)
    _mine.norm(*x.shape, epsilon, threads).run(x.ctypes.data, out.ctypes.data)
    return out


def gelu(x: Floats) -> None:
    """In place: x (n,) is contiguous."""
    pointer = x.ctypes.data
    _mine.gelu(x.size).run(pointer, pointer)


class _Handle(c_void_p):
    """Of an object of the library's, which ends with it."""

    destroy: Any = None

    def __del__(self) -> None:
        if self.value:
            self.destroy(self)


class _Argument(Structure):
    _fields_ = (("number", c_int), ("memory", c_void_p))


class _Layout:
    """In which a matrix of this size and type is multiplied fastest."""

    def __init__(self, inputs: int, outputs: int, dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = (inputs, outputs), dtype
        anyhow = _make(
            "memory_desc", "memory_desc_create_with_tag",
            2, _numbers(inputs, outputs), TYPES[dtype], ANY_LAYOUT,
        )  # fmt: skip
        source, result = _descriptor((ROWS, inputs), dtype), _descriptor((ROWS, outputs), FLOATS)
        arguments = {SOURCE: source, WEIGHTS: anyhow, RESULT: result}
        self._chosen = _describe(arguments, _Extras())
        library = _library()
        # It belongs to what it was asked of.
        chosen = library.dnnl_primitive_desc_query_md(self._chosen, WEIGHTS_QUERY, 0)
        self.descriptor = c_void_p(chosen)
        self.size: int = library.dnnl_memory_desc_get_size(self.descriptor)  # bytes


class _Extras:
    """What a product does beside multiplying."""

    def __init__(self, *, gelu: bool = False, add: bool = False, scaled: bool = False) -> None:
        after = _make("post_ops", "post_ops_create")
        if gelu:
            _call("post_ops_append_eltwise", after, GELU, c_float(0), c_float(0))
        if add:
            _call("post_ops_append_sum", after, c_float(1), 0, 0)
        self.attributes = _make("primitive_attr", "primitive_attr_create")
        _call("primitive_attr_set_post_ops", self.attributes, after)
        if scaled:
            _call("primitive_attr_set_scales_mask", self.attributes, WEIGHTS, BY_COLUMN)


class _Primitive:
    """What is run, with the memory objects of its arguments.

    The number of threads is that of when it was described, and has to be set for each run too.
    """

    def __init__(self, described: _Handle, arguments: dict[int, c_void_p], threads: int) -> None:
        self._threads = threads
        self._primitive = _make("primitive", "primitive_create", described)
        self._memories = [
            _make("memory", "memory_create", descriptor, _engine(), None)
            for descriptor in arguments.values()
        ]
        pairs = zip(arguments, self._memories, strict=True)
        self._arguments = (_Argument * len(arguments))(*(_Argument(n, m) for n, m in pairs))
        library = _library()
        self._place, self._execute = (
            library.dnnl_memory_set_data_handle,
            library.dnnl_primitive_execute,
        )

    def run(self, *pointers: int) -> None:
        """Addresses in the order of the arguments."""
        for memory, pointer in zip(self._memories, pointers, strict=True):
            self._place(memory, pointer)
        stream, count = _mine.stream, len(pointers)
        _set_threads(self._threads)
        _check(self._execute(self._primitive, stream, count, self._arguments), "primitive_execute")


class _Wanted(NamedTuple):
    """Of a product: all that one primitive differs from another in."""

    layout: _Layout
    rows: int
    threads: int
    bias: bool
    gelu: bool
    add: bool


class _Product(_Primitive):
    def __init__(self, wanted: _Wanted) -> None:
        layout = wanted.layout
        (inputs, outputs), scaled = layout.shape, layout.dtype == np.int8
        _set_threads(wanted.threads)
        arguments: dict[int, c_void_p] = {
            SOURCE: _descriptor((wanted.rows, inputs), layout.dtype),
            RESULT: _descriptor((wanted.rows, outputs), FLOATS),
            WEIGHTS: layout.descriptor,
        }
        if wanted.bias:
            arguments[BIAS] = _descriptor((1, outputs), FLOATS)
        if scaled:
            arguments[SCALES | WEIGHTS] = _descriptor((outputs,), FLOATS)
        extras = _Extras(gelu=wanted.gelu, add=wanted.add, scaled=scaled)
        super().__init__(_describe(arguments, extras), arguments, wanted.threads)


class _Norm(_Primitive):
    def __init__(self, rows: int, size: int, epsilon: float, threads: int) -> None:
        _set_threads(threads)
        alike = _descriptor((rows, size), FLOATS)
        described = _make(
            "primitive_desc", "layer_normalization_forward_primitive_desc_create",
            _engine(), INFERENCE, alike, alike, None, c_float(epsilon), 0, None,
        )  # fmt: skip
        super().__init__(described, {SOURCE: alike, RESULT: alike}, threads)


class _Gelu(_Primitive):
    def __init__(self, size: int) -> None:
        _set_threads(1)
        alike = _descriptor((size,), FLOATS)
        described = _make(
            "primitive_desc", "eltwise_forward_primitive_desc_create",
            _engine(), INFERENCE, GELU, alike, alike, c_float(0), c_float(0), None,
        )  # fmt: skip
        super().__init__(described, {SOURCE: alike, RESULT: alike}, threads=1)


class _Mine(threading.local):
    """Of the calling thread."""

    def __init__(self) -> None:
        self.product = lru_cache(maxsize=KEPT)(_Product)
        self.norm = lru_cache(maxsize=KEPT)(_Norm)
        self.gelu = lru_cache(maxsize=KEPT)(_Gelu)

    @cached_property
    def stream(self) -> _Handle:
        return _make("stream", "stream_create", _engine(), IN_ORDER)


def _describe(arguments: Mapping[int, c_void_p], extras: _Extras) -> _Handle:
    return _make(
        "primitive_desc", "matmul_primitive_desc_create",
        _engine(), arguments[SOURCE], arguments[WEIGHTS], arguments.get(BIAS), arguments[RESULT],
        extras.attributes,
    )  # fmt: skip


@cache
def _layout(inputs: int, outputs: int, dtype: np.dtype[Any]) -> _Layout:
    return _Layout(inputs, outputs, dtype)


@cache
def _engine() -> _Handle:
    return _make("engine", "engine_create", CPU, c_size_t(0))


def _descriptor(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> _Handle:
    """Of an array; ``strides`` in bytes, where it is not row after row."""
    steps = strides or np.empty(shape, np.int8).strides
    size = dtype.itemsize if strides else 1
    return _make(
        "memory_desc", "memory_desc_create_with_strides",
        len(shape), _numbers(*shape), TYPES[dtype], _numbers(*(step // size for step in steps)),
    )  # fmt: skip


def _set_threads(count: int) -> None:
    if ONEDNN is not None:
        ONEDNN.set_threads(count)


def _numbers(*numbers: int) -> Any:
    return (c_int64 * len(numbers))(*numbers)


def _make(kind: str, function: str, *arguments: Any) -> _Handle:
    handle = _Handle()
    _call(function, byref(handle), *arguments)
    handle.destroy = getattr(_library(), f"dnnl_{kind}_destroy")
    return handle


def _call(function: str, *arguments: Any) -> None:
    _check(getattr(_library(), f"dnnl_{function}")(*arguments), function)


def _check(status: int, function: str) -> None:
    if status:
        raise RuntimeError(f"oneDNN: {function} failed with status {status}")


@cache
def _library() -> CDLL:
    if ONEDNN is None:
        raise RuntimeError("oneDNN is not installed")
    library = ONEDNN.library
    library.dnnl_set_primitive_cache_capacity(KEPT)  # of its own 1024, 60 MB with all prompt sizes
    library.dnnl_memory_set_data_handle.argtypes = [c_void_p, c_void_p]
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_memory_desc_get_size.restype = c_size_t
    return library


_mine = _Mine()
