"""Attention as the networks need it: plain MLX on Metal and CUDA, block by block on a CPU.

There the scores of a block stay in the caches between the two products, and a decoder's step,
whose arrays are small, pays for no graph of operations: all of it is NumPy on the arrays' own
memory. Shapes: B windows, n queries, T positions, H heads of d numbers, D = H d. Queries are scaled
before they get here. On a CPU every result is evaluated.
"""

from __future__ import annotations

from itertools import product

import mlx.core as mx
import numpy as np

from models.backend import products
from models.backend.device import on_cpu
from models.backend.ops import Floats, softmax, view

SCORE_ROWS = 375  # of attention: 2.3 MB of scores for 30 s of audio; 125 and 750 take 2 % longer
SAFE_SUM = 1e30  # of exponentials, and its inverse: far from where float32 ends


Past = tuple[mx.array, mx.array]
"""Keys and values (B, H, capacity, d), evaluated and filled in place."""


def attend(query: mx.array, keys: mx.array, values: mx.array) -> mx.array:
    """softmax(query keys) values: query (B, n, D), keys (B, H, d, T), values (B, T, D)."""
    if on_cpu():
        return mx.array(_attend(view(query), view(keys), view(values)))
    heads = keys.shape[1]
    mixed = mx.fast.scaled_dot_product_attention(
        split(query, heads), keys.swapaxes(2, 3), split(values, heads), scale=1.0
    )
    return merge(mixed)


def attend_to_past(query_key_value: mx.array, past: Past, start: int) -> mx.array:
    """Causal attention of (B, n, 3 D) to what ``past`` holds before ``start`` and to itself.

    The new keys and values are written to ``past``.
    """
    if on_cpu():
        return mx.array(_attend_to_past(view(query_key_value), view(past[0]), view(past[1]), start))
    heads, new = past[0].shape[1], query_key_value.shape[1]
    query, *own = (split(part, heads) for part in mx.split(query_key_value, 3, axis=-1))
    for kept, rows in zip(past, own, strict=True):
        kept[:, :, start : start + new] = rows
    keys, values = (kept[:, :, : start + new] for kept in past)
    scores = query @ keys.swapaxes(2, 3)
    if new > 1:
        scores = scores + mx.array(_causal_mask(new, start + new)).astype(scores.dtype)
    return merge(softmax(scores) @ values)


def attend_to_states(query: mx.array, key: mx.array, value: mx.array, states: mx.array) -> mx.array:
    """softmax(query key states^T) states value: query (B, n, D), states (B, T, D).

    The matrices key (H, d, D) and value (H, D, d) stand on the query's and the result's side,
    (q K^T) = (q W_k) X^T and (P V) = (P X) W_v: no keys and values for each layer, which would take
    a tenth of an encoder's time and 12 times the memory, and one product a window with all heads
    as its rows.
    """
    if on_cpu():
        return mx.array(_attend_to_states(view(query), view(key), view(value), view(states)))
    batch, new, size = query.shape
    heads = key.shape[0]
    asked = split(query, heads) @ key
    scores = asked.reshape(batch, heads * new, size) @ states.swapaxes(1, 2)
    heard = (softmax(scores) @ states).reshape(batch, heads, new, size)
    return merge(heard @ value)


def split(x: mx.array, heads: int) -> mx.array:
    """(B, n, D) -> (B, H, n, d)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def merge(x: mx.array) -> mx.array:
    """(B, H, n, d) -> (B, n, D)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """One head and some rows at a time."""
    out = np.empty_like(query)
    batch, length = query.shape[:2]
    _, heads, size, positions = keys.shape
    scores = np.empty((min(length, SCORE_ROWS), positions), np.float32)
    for b, head, start in product(range(batch), range(heads), range(0, length, SCORE_ROWS)):
        columns = slice(head * size, (head + 1) * size)
        rows = slice(start, start + SCORE_ROWS)
        _mix(
            query[b, rows, columns],
            keys[b, head],
            values[b, :, columns],
            scores[: min(SCORE_ROWS, length - start)],
            out[b, rows, columns],
        )
    return out


def _attend_to_past(x: Floats, keys: Floats, values: Floats, start: int) -> Floats:
    batch, heads, _, size = keys.shape
    end = start + x.shape[1]
    query, new_keys, new_values = x.reshape(batch, -1, 3, heads, size).transpose(2, 0, 3, 1, 4)
    keys[:, :, start:end], values[:, :, start:end] = new_keys, new_values
    scores = np.einsum("bhnd,bhtd->bhnt", query, keys[:, :, :end])
    if end - start > 1:
        scores += _causal_mask(end - start, end)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed: Floats = np.einsum("bhnt,bhtd->bnhd", scores, values[:, :, :end])
    return mixed.reshape(batch, end - start, heads * size)


def _causal_mask(new: int, end: int) -> Floats:
    hidden = np.arange(end) > np.arange(end - new, end)[:, None]
    return np.where(hidden, np.float32(-np.inf), np.float32(0))


def _attend_to_states(query: Floats, key: Floats, value: Floats, states: Floats) -> Floats:
    batch, new, size = query.shape
    heads = len(key)
    asked = np.matmul(_heads(query, heads), key).reshape(heads, batch, new, size)
    rows = np.ascontiguousarray(asked.swapaxes(0, 1)).reshape(batch, heads * new, size)
    heard = _hear(rows, states).reshape(batch, heads, new, size)
    out = np.empty_like(query)
    np.matmul(heard.swapaxes(0, 1).reshape(heads, -1, size), value, out=_heads(out, heads))
    return out


def _heads(x: Floats, count: int) -> Floats:
    """Views of the columns of each head: (B, n, D) -> (H, B n, d)."""
    return x.reshape(-1, count, x.shape[-1] // count).swapaxes(0, 1)


def _hear(asked: Floats, states: Floats) -> Floats:
    """(B, n, D) and (B, T, D) -> (B, n, D): one window whole before the next, as caches like it.

    No thread of Python's takes part: the products share out their own work with less ado.
    """
    scores, out = np.empty((asked.shape[1], states.shape[1]), np.float32), np.empty_like(asked)
    for rows, window, heard in zip(asked, states, out, strict=True):
        _mix(rows, window.T, window, scores, heard)
    return out


def _mix(query: Floats, keys: Floats, values: Floats, scores: Floats, out: Floats) -> None:
    """``out[:] = softmax(query keys) values``, by way of ``scores``.

    Softmax is the same whatever is subtracted from a row, and speech needs nothing subtracted;
    where float32 ends, the row's maximum is.
    """
    products.multiply(query, keys, scores)
    with np.errstate(over="ignore"):
        np.exp(scores, out=scores)
        total = _sums(scores)
    if not (total.min() > 1 / SAFE_SUM and total.max() < SAFE_SUM):
        products.multiply(query, keys, scores)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        total = _sums(scores)
    products.multiply(scores, values, out)
    out /= total


def _sums(rows: Floats) -> Floats:
    """(n, 1), in a third of the time that ``sum`` takes for its pairwise order."""
    sums: Floats = np.einsum("ij->i", rows)[:, None]
    return sums
