from __future__ import annotations

import numpy as np
import pytest

from models.kokoro.network import frames_of


@pytest.mark.parametrize(
    ("durations", "speed", "frames"),
    [
        ([0.2, 1.49, 1.5, 2.5, 250.0], 1.0, [1, 1, 2, 3, 100]),
        ([4.0, 5.0], 2.0, [2, 3]),
        ([4.0, 5.0], 0.5, [8, 10]),
        ([4.0], 0.0, [4]),
        ([4.0], -1.0, [4]),
        ([4.0], float("nan"), [4]),
        ([4.0], float("inf"), [4]),
        ([float("nan"), float("inf")], 1.0, [1, 1]),
    ],
)
def test_durations(durations, speed, frames):
    assert frames_of(np.array(durations, np.float32), speed).tolist() == frames
