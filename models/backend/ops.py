"""Elementwise functions: plain MLX on Metal and CUDA, in place through NumPy on a CPU.

MLX's CPU loops cost 10 to 40 ns an element for these functions, NumPy's 0.4 to 0.9 (measured on
an AVX-512 AMD; MKL's own vector functions take 1.2 to 3.6 there). **A function consumes its
argument**: on a CPU the result overwrites it, so hand over a freshly computed float32 array that
nothing else reads. Work is done in blocks that stay in a core's cache, on all cores
where the array is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from models.backend import onednn, products
from models.backend.device import on_cpu
from models.backend.int8 import Int8Matrix
from models.backend.onednn import AVAILABLE, Packed
from models.backend.parallel import can_split, each

Floats = NDArray[np.float32]
Matrix = mx.array | Packed | Int8Matrix
BLOCK = 16_384  # elements: 64 kB, with its scratch well inside a core's L2
MIN_SHARE = 4 * BLOCK  # elements that are worth handing to another thread
SQRT_2 = math.sqrt(2.0)
# Minimax fit of atanh(erf(x / sqrt 2)) / x over x^2, highest power first: GELU within 6e-7, which
# is float32's rounding; from |x| = 5.2 on, the tanh is 1.
ERF_SATURATES = 5.2**2
ERF_TANH = (
    1.80659822e-09,
    -1.33485645e-07,
    3.96967896e-06,
    -5.52439101e-05,
    -3.31185761e-05,
    0.0363342692,
    0.797884221,
)
TANH_GELU = (math.sqrt(2.0 / math.pi), 0.044715)


def view(x: mx.array) -> Floats:
    """The evaluated array's own memory as NumPy; writing to it writes to the array (CPU only)."""
    mx.eval(x)
    return np.array(x, copy=False)


def exp(x: mx.array) -> mx.array:
    return _in_place(x, _exp) if on_cpu() else mx.exp(x)


def tanh(x: mx.array) -> mx.array:
    return _in_place(x, _tanh) if on_cpu() else mx.tanh(x)


def sin(x: mx.array) -> mx.array:
    return _in_place(x, _sin) if on_cpu() else mx.sin(x)


def sigmoid(x: mx.array) -> mx.array:
    return _in_place(x, _sigmoid) if on_cpu() else mx.sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    """``x Phi(x)``, with the error function and not its tanh approximation."""
    return _in_place(x, _gelu) if on_cpu() else x * (1 + mx.erf(x / SQRT_2)) / 2


def gelu_tanh(x: mx.array) -> mx.array:
    if on_cpu():
        return _in_place(x, _gelu_tanh)
    scale, cubic = TANH_GELU
    return 0.5 * x * (1 + mx.tanh(scale * (x + cubic * x * x * x)))


def softmax(x: mx.array) -> mx.array:
    """Over the last axis."""
    return _rows_in_place(x, _softmax) if on_cpu() else mx.softmax(x, axis=-1)


def snake(x: mx.array, alpha: mx.array) -> mx.array:
    """``x + sin(alpha x)^2 / alpha``, alpha per channel of the last axis."""
    if not on_cpu():
        return x + mx.square(mx.sin(alpha * x)) / alpha
    per_channel = view(alpha).reshape(-1)
    return _rows_in_place(x, lambda rows: _snake(rows, per_channel))


def normalise(x: mx.array, epsilon: float) -> mx.array:
    """Mean 0 and variance 1 over the last axis; unlike the others it leaves its argument alone."""
    if not on_cpu():
        return mx.fast.layer_norm(x, None, None, epsilon)
    if AVAILABLE:
        return mx.array(onednn.normalise(_rows(x), epsilon).reshape(x.shape))
    values = _rows(x).copy()
    return mx.array(_run(values, lambda rows: _normalise(rows, epsilon)).reshape(x.shape))


def linear(
    x: mx.array, weight: Matrix, bias: mx.array | None = None, *, added: mx.array | None = None
) -> mx.array:
    """The sum x weight + bias + added: x (..., n), weight (n, m), bias (m,), added as the result.

    The rows of all batches are one product; a batch of them would read the weights each time.
    Like ``normalise`` it leaves its arguments alone.
    """
    shape = (*x.shape[:-1], weight.shape[1])
    if on_cpu() or not isinstance(weight, mx.array):
        return mx.array(_linear(_rows(x), weight, bias, added).reshape(shape))
    terms = [term for term in (bias, added) if term is not None]
    rows = x.reshape(-1, x.shape[-1])
    if not terms:
        return (rows @ weight).reshape(shape)
    start = sum(terms[1:], start=terms[0]).reshape(-1, shape[-1])
    return mx.addmm(start, rows, weight).reshape(shape)


def activated(x: mx.array, weight: Matrix, bias: mx.array) -> mx.array:
    """``gelu(linear(x, weight, bias))``: where oneDNN multiplies it does both, within 1.2e-6."""
    if isinstance(weight, mx.array):
        return gelu(linear(x, weight, bias))
    if isinstance(weight, Packed):
        out = weight.multiply(_rows(x), bias=view(bias), gelu=True)
    else:
        out = _linear(_rows(x), weight, bias, None)
        onednn.gelu(out.reshape(-1))
    return mx.array(out.reshape(*x.shape[:-1], -1))


def matrix(weight: mx.array) -> Matrix:
    """A matrix (n, m) as this machine multiplies by it fastest; its columns are gone then."""
    if on_cpu() and AVAILABLE:
        return Packed(view(weight))
    # The longer side becomes the rows in memory: steps of 8 kB between rows cost twice.
    wide = weight.shape[1] > weight.shape[0]
    laid_out = mx.contiguous(weight.T).T if wide else mx.contiguous(weight)
    mx.eval(laid_out)  # the view too: only evaluated arrays cross threads
    return laid_out


def columns(matrix: Matrix, numbers: mx.array) -> mx.array:
    """The columns of a matrix (n, m) by number: (...) -> (..., n)."""
    if isinstance(matrix, Int8Matrix):
        return mx.array(matrix.columns(np.array(numbers)))
    if isinstance(matrix, Packed):
        raise TypeError("the columns of a packed matrix cannot be told")
    return mx.moveaxis(mx.take(matrix, numbers, axis=1), 0, -1)


def _in_place(x: mx.array, function: Callable[[Floats], object]) -> mx.array:
    return _spread(x, view(x).reshape(-1), function)


def _rows_in_place(x: mx.array, function: Callable[[Floats], object]) -> mx.array:
    values = view(x)
    return _spread(x, values.reshape(-1, values.shape[-1]), function)


def _spread(x: mx.array, values: Floats, function: Callable[[Floats], object]) -> mx.array:
    if not np.shares_memory(values, view(x)):  # a transposed view: its copy is what was changed
        return mx.array(_run(values, function).reshape(x.shape))
    _run(values, function)
    return x


def _run(values: Floats, function: Callable[[Floats], object]) -> Floats:
    step = max(1, BLOCK * len(values) // max(1, values.size))
    if values.size >= 2 * MIN_SHARE and can_split():
        share = -(-len(values) // max(2, values.size // MIN_SHARE) // step) * step or step
        parts = [values[i : i + share] for i in range(0, len(values), share)]
        each(lambda part: _blocks(part, step, function), parts)
    else:
        _blocks(values, step, function)
    return values


def _blocks(values: Floats, step: int, function: Callable[[Floats], object]) -> None:
    for start in range(0, len(values), step):
        function(values[start : start + step])


def _exp(x: Floats) -> None:
    np.exp(x, out=x)


def _tanh(x: Floats) -> None:
    np.tanh(x, out=x)


def _sin(x: Floats) -> None:
    np.sin(x, out=x)


def _sigmoid(x: Floats) -> None:
    """(1 + tanh(x/2)) / 2: no overflow at either end."""
    x *= 0.5
    np.tanh(x, out=x)
    x += 1
    x *= 0.5


def _softmax(x: Floats) -> None:
    x /= _exponentials(x)


def _snake(x: Floats, alpha: Floats) -> None:
    wave = x * alpha
    np.sin(wave, out=wave)
    wave *= wave
    wave /= alpha
    x += wave


def _normalise(x: Floats, epsilon: float) -> None:
    size = x.shape[-1]
    x -= np.add.reduce(x, axis=-1, keepdims=True) / size
    x *= 1 / np.sqrt(np.vecdot(x, x)[:, None] / size + np.float32(epsilon))


def _rows(x: mx.array) -> Floats:
    """(..., n) as one matrix; a reshape of MLX's, though it does nothing, is another thread's."""
    return np.ascontiguousarray(view(x)).reshape(-1, x.shape[-1])


def _linear(rows: Floats, weight: Matrix, bias: mx.array | None, added: mx.array | None) -> Floats:
    if isinstance(weight, Packed):
        return weight.multiply(
            rows,
            bias=None if bias is None else view(bias),
            added=None if added is None else _rows(added),
        )
    if isinstance(weight, Int8Matrix):
        out = weight.multiply(rows)
    else:
        out = np.empty((len(rows), weight.shape[1]), np.float32)
        products.multiply(rows, view(weight), out)
    for term in (bias, added):
        if term is not None:
            out += view(term).reshape(-1, weight.shape[1])
    return out


def _exponentials(x: Floats) -> Floats:
    """A softmax in place but for the division by the rows' sums, which are returned."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    total: Floats = x.sum(axis=-1, keepdims=True)
    return total


def _gelu_tanh(x: Floats) -> None:
    scale, cubic = TANH_GELU
    inner = x * x
    inner *= scale * cubic
    inner += scale
    inner *= x
    _times_half_one_plus_tanh(x, inner)


def _times_half_one_plus_tanh(x: Floats, inner: Floats) -> None:
    np.tanh(inner, out=inner)
    inner += 1
    x *= 0.5
    x *= inner


def _gelu(x: Floats) -> None:
    """erf(x/sqrt 2) = tanh(x P(x^2)): NumPy has a fast tanh and no erf."""
    square = x * x
    np.minimum(square, ERF_SATURATES, out=square)
    inner = square * ERF_TANH[0]
    for coefficient in ERF_TANH[1:-1]:
        inner += coefficient
        inner *= square
    inner += ERF_TANH[-1]
    inner *= x
    _times_half_one_plus_tanh(x, inner)
