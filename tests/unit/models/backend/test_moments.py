from __future__ import annotations

import numpy as np
import pytest

from models.backend import moments as module
from models.backend import mx
from models.backend.moments import moments


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("shape", [(1, 4), (7, 3), (5000, 64)])
def test_mean_and_variance_even_far_from_zero(monkeypatch, shape, on_cpu):
    monkeypatch.setattr(module, "on_cpu", lambda: on_cpu)
    rows = (np.random.default_rng(0).normal(size=shape) + 30).astype(np.float32)
    mean, variance = moments(mx.array(rows))
    np.testing.assert_allclose(np.array(mean)[0], rows.astype(np.float64).mean(0), rtol=1e-5)
    np.testing.assert_allclose(
        np.array(variance)[0], rows.astype(np.float64).var(0), rtol=1e-4, atol=1e-5
    )
