"""Products written into given memory, in every layout that BLAS takes."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import products


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (125, 64, 90)])
def test_multiply(sizes, transposed):
    m, n, k = sizes
    rng = np.random.default_rng(m)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
    left, right = (
        np.ascontiguousarray(x.T).T if flip else x
        for x, flip in zip((a, b), transposed, strict=True)
    )
    out = np.full((m, 2 * n), np.nan, np.float32)
    products.multiply(left, right, out[:, :n])
    np.testing.assert_allclose(out[:, :n], a @ b, rtol=1e-4, atol=1e-5)
    assert np.isnan(out[:, n:]).all()


def test_multiply_takes_columns_of_a_wider_matrix():
    wide = np.random.default_rng(0).normal(size=(9, 30)).astype(np.float32)
    b = np.random.default_rng(1).normal(size=(10, 4)).astype(np.float32)
    out = np.empty((9, 4), np.float32)
    products.multiply(wide[:, 10:20], b, out)
    np.testing.assert_allclose(out, wide[:, 10:20] @ b, rtol=1e-4, atol=1e-5)
