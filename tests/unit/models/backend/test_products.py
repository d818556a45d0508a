"""Products written into given memory, in every layout that BLAS takes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.backend import products
from models.backend.process import BLAS, ONEDNN


@pytest.fixture(params=["onednn", "blas", "numpy"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library that this machine has."""
    loaded = {"onednn": ONEDNN, "blas": BLAS.library, "numpy": np}[request.param]
    if loaded is None:
        pytest.skip(f"{request.param} is not installed")
    monkeypatch.setattr(products, "_gemm", products.GEMMS[request.param]())


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


def test_multiply_adds_to_what_is_there():
    rng = np.random.default_rng(2)
    a, b, out = (rng.normal(size=size).astype(np.float32) for size in ((3, 6), (6, 4), (3, 4)))
    expected = out + a @ b
    products.multiply(a, b, out, add=True)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_a_layout_that_cannot_be_read_is_refused(request: pytest.FixtureRequest):
    if request.node.callspec.params["library"] != "onednn":
        pytest.skip("BLAS prints, and NumPy can")
    row, b = np.ones(6, np.float32), np.ones((6, 4), np.float32)
    with pytest.raises(ValueError, match="cannot multiply"):  # its rows are 0 bytes apart
        products.multiply(row[None], b, np.empty((1, 4), np.float32))


def test_large_products_in_several_threads():
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(300, 300)).astype(np.float32) for _ in range(2))
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: _product(a, b), range(6)))
    for got in results:
        np.testing.assert_allclose(got, a @ b, rtol=1e-3, atol=1e-3)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty((len(a), b.shape[1]), np.float32)
    products.multiply(a, b, out)
    return out
