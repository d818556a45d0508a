"""Work spread over the cores of a CPU by Python threads; on a GPU the same calls run plainly.

NumPy and MLX release the interpreter's lock while they compute. Each worker thread owns an MLX
stream (streams are thread-local), and products use one BLAS thread each while workers run.
Calls from within a worker run serially, so callers nest freely.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import mlx.core as mx

from models.backend.device import backend, blas_threads, on_cpu
from models.backend.products import use_one_thread

ROWS = 750  # at most at a time: half of 30 s of audio; with 375 a window takes 8 % longer
Item = TypeVar("Item")
Result = TypeVar("Result")
_thread = threading.local()


def each(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``[function(item) for item in items]``; on a CPU several at a time.

    MLX results must be evaluated by the function itself: only evaluated arrays cross threads.
    """
    if not on_cpu() or len(items) < 2 or not can_split():
        return [function(item) for item in items]
    with blas_threads(1):
        return list(_pool().map(lambda item: _in_worker(function, item), items))


def can_split() -> bool:
    """Whether this thread may spread work: there is more than one core and it is no worker."""
    return backend().threads > 1 and not hasattr(_thread, "stream")


def _in_worker(function: Callable[[Item], Result], item: Item) -> Result:
    with mx.stream(_thread.stream):
        return function(item)


def _start_worker() -> None:
    _thread.stream = mx.new_stream(mx.cpu)
    use_one_thread()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(
        backend().threads, thread_name_prefix="mlx", initializer=_start_worker
    )


def over_batch(function: Callable[[mx.array], mx.array], batch: mx.array) -> mx.array:
    """``function(batch)``; on a CPU item by item, whose activations the caches can hold.

    Items that would leave cores idle come last, one after the other, and share all cores.
    """
    if not on_cpu():
        return function(batch)
    mx.eval(batch)

    def one(i: int) -> mx.array:
        return _evaluated(function(batch[i : i + 1]))

    together = len(batch) - len(batch) % backend().threads
    results = each(one, range(together))
    return mx.concatenate([*results, *map(one, range(together, len(batch)))])


def by_rows(function: Callable[..., mx.array], x: mx.array, *shared: mx.array) -> mx.array:
    """``function(x, *shared)``, independent for each row (axis 1); on a CPU some rows at a time."""
    if not on_cpu():
        return function(x, *shared)
    mx.eval(x, *shared)
    rows = max(1, min(ROWS, x.shape[1] // backend().threads))
    starts = range(0, x.shape[1], rows)
    return mx.concatenate(
        each(lambda i: _evaluated(function(x[:, i : i + rows], *shared)), starts), axis=1
    )


def _evaluated(x: mx.array) -> mx.array:
    mx.eval(x)
    return x
