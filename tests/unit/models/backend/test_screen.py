"""The largest product of each row, found by a look in bytes: it must be the exact one, always."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import screen
from models.backend.int8 import AVAILABLE
from models.backend.screen import Screen

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no oneDNN or no VNNI on this machine")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def activations(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    """With one channel far larger than the others, as Whisper's last layer norm has it."""
    x = rng.normal(0, 8, (rows, size)).astype(np.float32)
    x[:, 3] *= 40
    return x


@pytest.mark.parametrize("rows", [1, 6])
def test_the_largest_is_the_exact_one(rng, rows):
    matrix = rng.normal(0, 0.03, (128, 5000)).astype(np.float32)
    look, found = Screen(matrix), 0
    for _ in range(40):
        x = activations(rng, rows, 128)
        exact = x @ matrix
        glance = look.glance(x)
        assert np.abs(glance.values - exact).max() < 1
        glance.settle()
        best = glance.values.argmax(axis=1)
        np.testing.assert_array_equal(best, exact.argmax(axis=1))
        np.testing.assert_allclose(glance.values.max(axis=1), exact.max(axis=1), rtol=1e-5)
        found += rows
    assert found == 40 * rows


def test_near_twins_are_told_apart(rng):
    """Columns that bytes cannot tell apart, since they differ by less than a step."""
    matrix = np.repeat(rng.normal(0, 0.03, (128, 50)), 20, axis=1).astype(np.float32)
    matrix *= 1 + rng.uniform(0, 1e-4, matrix.shape).astype(np.float32)
    look = Screen(matrix)
    for _ in range(40):
        x = activations(rng, 3, 128)
        glance = look.glance(x)
        glance.settle()
        exact = (x.astype(np.float64) @ matrix).max(axis=1)
        chosen = glance.values.argmax(axis=1)
        got = (x.astype(np.float64) @ matrix)[np.arange(3), chosen]
        np.testing.assert_allclose(got, exact, rtol=1e-6)


def test_what_was_ruled_out_stays_out(rng):
    matrix = rng.normal(0, 0.03, (128, 900)).astype(np.float32)
    look, x = Screen(matrix), activations(rng, 4, 128)
    exact = x @ matrix
    out = exact.argsort(axis=1)[:, -5:]
    glance = look.glance(x)
    np.put_along_axis(glance.values, out, -np.inf, axis=1)
    glance.settle()
    np.put_along_axis(exact, out, -np.inf, axis=1)
    np.testing.assert_array_equal(glance.values.argmax(axis=1), exact.argmax(axis=1))
    assert np.isneginf(np.take_along_axis(glance.values, out, axis=1)).all()


def test_a_row_without_a_favourite_is_multiplied_whole(rng, monkeypatch):
    monkeypatch.setattr(screen, "MANY", 2)
    matrix = np.repeat(rng.normal(0, 0.03, (64, 1)), 300, axis=1).astype(np.float32)
    look, x = Screen(matrix), activations(rng, 2, 64)
    glance = look.glance(x)
    glance.values[0, 7] = -np.inf
    glance.settle()
    exact = x @ matrix
    exact[0, 7] = -np.inf
    np.testing.assert_allclose(glance.values, exact, rtol=1e-4)


def test_nothing_but_zeros():
    look = Screen(np.zeros((8, 4), np.float32))
    glance = look.glance(np.zeros((2, 8), np.float32))
    glance.settle()
    assert not glance.values.any()
