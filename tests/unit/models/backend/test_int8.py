from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx, ops
from models.backend.int8 import AVAILABLE, Int8Matrix

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no oneDNN or no VNNI on this machine")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(8)


@pytest.mark.parametrize("rows", [1, 7, 400])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 3), (100, 77), (512, 2048)])
def test_a_product_is_off_by_no_more_than_the_rounding(rng, rows, inputs, outputs):
    x = rng.normal(0, 3, (rows, inputs)).astype(np.float32)
    matrix = rng.normal(0, 0.2, (inputs, outputs)).astype(np.float32)
    kept = Int8Matrix.rounded(matrix)
    assert kept.shape == matrix.shape
    exact = x.astype(np.float64) @ matrix
    # Half a step of either side, the other one being at its largest, for each of the inputs.
    steps = np.abs(x).max(1, keepdims=True) * np.abs(matrix).max(0) / 127
    worst = steps * 0.55 * inputs * 2
    error = np.abs(kept.multiply(x) - exact)
    assert (error < worst).all()
    assert error.std() < 0.02 * exact.std()


def test_values_that_are_bytes_come_out_whole(rng):
    x = rng.integers(-127, 128, (5, 40)).astype(np.float32)
    matrix = rng.integers(-127, 128, (40, 6)).astype(np.float32)
    x[:, 0], matrix[0] = 127, 127
    np.testing.assert_allclose(Int8Matrix.rounded(matrix).multiply(x), x @ matrix, rtol=1e-5)


def test_nothing_but_zeros():
    kept = Int8Matrix.rounded(np.zeros((8, 4), np.float32))
    assert not kept.multiply(np.zeros((2, 8), np.float32)).any()
    assert not kept.multiply(np.ones((2, 8), np.float32)).any()


def test_linear_and_columns_take_such_a_matrix(rng):
    matrix = rng.normal(0, 1, (32, 10)).astype(np.float32)
    x, bias = rng.normal(0, 1, (2, 3, 32)).astype(np.float32), np.arange(10, dtype=np.float32)
    added = rng.normal(0, 1, (2, 3, 10)).astype(np.float32)
    kept = Int8Matrix.rounded(matrix, keep_rows=True)
    got = ops.linear(mx.array(x), kept, mx.array(bias), added=mx.array(added))
    np.testing.assert_allclose(np.array(got), x @ matrix + bias + added, atol=0.2)
    linear = ops.linear(mx.array(x), kept, mx.array(bias))
    got = ops.activated(mx.array(x), kept, mx.array(bias))
    np.testing.assert_allclose(np.array(got), np.array(ops.gelu(linear)), atol=2e-6)
    numbers = mx.array([[3, 0], [9, 3]])
    np.testing.assert_allclose(
        np.array(ops.columns(kept, numbers)), matrix.T[[[3, 0], [9, 3]]], atol=0.02
    )
    np.testing.assert_array_equal(
        np.array(ops.columns(mx.array(matrix), numbers)), matrix.T[[[3, 0], [9, 3]]]
    )


def test_rounding_leaves_what_it_is_given_alone(rng):
    """Also where its transpose is what lies in memory row by row."""
    matrix = np.asfortranarray(rng.normal(0, 1, (32, 10)).astype(np.float32))
    before = matrix.copy()
    kept = Int8Matrix.rounded(matrix)
    np.testing.assert_array_equal(matrix, before)
    with pytest.raises(ValueError, match="rows"):
        kept.columns(np.array([1]))


@pytest.mark.parametrize("rows", [1, 9])
def test_a_closer_product_is_off_by_the_matrix_alone(rng, rows):
    x = rng.normal(0, 3, (rows, 512)).astype(np.float32)
    x[:, 5] = 400
    matrix = rng.normal(0, 0.2, (512, 300)).astype(np.float32)
    kept = Int8Matrix.rounded(matrix)
    got, used = kept.multiply_closely(x)
    assert np.abs(used - x).max() <= 0.51 * 400 / (127 * 256)
    error = np.abs(got - used.astype(np.float64) @ matrix)
    assert (error <= np.linalg.norm(used, axis=1)[:, None] * kept.error + 1e-3).all()
