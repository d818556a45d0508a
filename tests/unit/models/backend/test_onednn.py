"""Packed matrices: the product, what follows it, and use from several threads."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.backend import mx, onednn, ops
from models.backend.onednn import Packed

pytestmark = pytest.mark.skipif(not onednn.AVAILABLE, reason="oneDNN is not installed")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def gelu(x: np.ndarray) -> np.ndarray:
    return np.array(ops.gelu(mx.array(x)))


@pytest.mark.parametrize("rows", [1, 7, 375])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (40, 3), (512, 100)])
@pytest.mark.parametrize("flip", [False, True])
def test_a_product_and_what_follows_it(rng, rows, inputs, outputs, flip):
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    matrix = rng.normal(size=(inputs, outputs)).astype(np.float32)
    bias = rng.normal(size=outputs).astype(np.float32)
    added = rng.normal(size=(rows, outputs)).astype(np.float32)
    packed = Packed(np.asfortranarray(matrix) if flip else matrix)
    assert packed.shape == matrix.shape
    plain = x @ matrix
    before = added.copy()
    for got, wanted in (
        (packed.multiply(x), plain),
        (packed.multiply(x, bias=bias), plain + bias),
        (packed.multiply(x, added=added), plain + added),
        (packed.multiply(x, bias=bias, gelu=True), gelu(plain + bias)),
        (packed.multiply(x, bias=bias, gelu=True, added=added), gelu(plain + bias) + added),
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(added, before)


def test_gelu_is_the_one_with_the_error_function():
    x = np.linspace(-9, 9, 1801, dtype=np.float32)
    packed = Packed(np.eye(1, dtype=np.float32))
    got = packed.multiply(x[:, None], gelu=True)[:, 0]
    np.testing.assert_allclose(got, gelu(x), atol=2e-6)


def test_bytes_with_a_scale_for_each_column(rng):
    x = rng.integers(-128, 128, (5, 64)).astype(np.int8)
    matrix = rng.integers(-127, 128, (64, 6)).astype(np.int8)
    scale = rng.uniform(0.1, 2, 6).astype(np.float32)
    got = Packed(matrix, scale).multiply(x)
    np.testing.assert_allclose(got, (x.astype(np.int32) @ matrix.astype(np.int32)) * scale)


@pytest.mark.parametrize("rows", [1, 7, 1500])
def test_normalise(rng, rows):
    x = rng.normal(3, 5, (rows, 512)).astype(np.float32)
    before = x.copy()
    got = onednn.normalise(x, 1e-5)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, exact, atol=1e-5)
    np.testing.assert_array_equal(x, before)


def test_one_matrix_in_several_threads(rng):
    matrix = rng.normal(size=(200, 300)).astype(np.float32)
    packed = Packed(matrix)
    inputs = [rng.normal(size=(20 + i % 3, 200)).astype(np.float32) for i in range(24)]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(packed.multiply, inputs))
    for x, got in zip(inputs, results, strict=True):
        np.testing.assert_allclose(got, x @ matrix, rtol=1e-4, atol=1e-4)


def test_a_thread_keeps_a_bounded_number_of_products():
    packed = Packed(np.eye(3, dtype=np.float32))
    for rows in range(1, onednn.KEPT + 50):
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(packed.multiply(x), x)
    np.testing.assert_array_equal(packed.multiply(np.ones((1, 3), np.float32)), [[1, 1, 1]])
    assert onednn._mine.product.cache_info().currsize == onednn.KEPT


def test_a_fault_of_the_library_says_which_call():
    with pytest.raises(RuntimeError, match="memory_desc_create_with_strides failed with status"):
        onednn._descriptor((1,) * 13, np.dtype(np.float32))


WITHOUT = """
import ctypes
real = ctypes.CDLL

def refuse(path, *args, **kwargs):
    if "libdnnl" in str(path):
        raise OSError("not here")
    return real(path, *args, **kwargs)

ctypes.CDLL = refuse
import numpy as np
from models.backend import backend, mx, ops, products
from models.whisper import provider, weights

assert backend().onednn_path == "" and products.LIBRARY != "onednn" and not weights.AVAILABLE
x, w, b = mx.ones((3, 8)), mx.full((8, 5), 0.25), mx.ones(5)
assert np.array(ops.linear(x, ops.matrix(w), b)).tolist() == [[3.0] * 5] * 3
assert np.allclose(np.array(ops.activated(x, ops.matrix(w), b)), 2.995950, atol=1e-5)
assert not np.array(ops.normalise(x, 1e-5)).any()
"""


def test_all_goes_on_where_the_library_does_not_load():
    command = [sys.executable, "-c", WITHOUT]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_linear_takes_a_packed_matrix_as_it_takes_a_plain_one(rng):
    x = mx.array(rng.normal(size=(2, 3, 32)).astype(np.float32))
    weight = mx.array(rng.normal(size=(32, 10)).astype(np.float32))
    bias = mx.array(rng.normal(size=10).astype(np.float32))
    added = mx.array(rng.normal(size=(2, 3, 10)).astype(np.float32))
    packed = ops.matrix(weight)
    for function in (
        lambda w: ops.linear(x, w),
        lambda w: ops.linear(x, w, bias, added=added),
        lambda w: ops.activated(x, w, bias),
        lambda w: ops.linear(x.swapaxes(0, 1), w, bias),
    ):
        np.testing.assert_allclose(
            np.array(function(packed)), np.array(function(weight)), rtol=1e-4, atol=1e-4
        )
    with pytest.raises(TypeError, match="packed"):
        ops.columns(packed, mx.array([0]))
