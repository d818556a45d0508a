"""Where a recording that is too long for a model may be cut: in a pause, found by energy alone.

Pure; knows no window, no file and no model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.base import Samples

FRAME_SECONDS = 0.02  # one energy measurement
SEARCH_SECONDS = 10.0  # the end of a stretch in which a cut may fall
# At least so long, and so much later than a longer one: between sentences, words, and syllables,
# where there is nothing else. The later the cut, the fewer windows.
PAUSES_SECONDS = ((0.3, 0.0), (0.1, 4.0), (0.04, 14.0))
MARGIN_SECONDS = 0.25  # of a long pause goes to the next stretch
FAINT = 1e-8  # mean square; below -80 dBFS all is silence


def quiet_cut(samples: Samples, *, rate: int) -> int:
    """Where to end a window that more follows: in the last good pause, else at its very end."""
    frame = max(1, int(FRAME_SECONDS * rate))
    count = len(samples) // frame
    power = np.square(samples[: count * frame].reshape(count, frame), dtype=np.float64).mean(axis=1)
    first = max(count // 2, count - int(SEARCH_SECONDS / FRAME_SECONDS))
    runs = _runs(_quiet(power, first))
    found = [
        (b * FRAME_SECONDS - later, a, b)
        for a, b in runs
        if (later := _later((b - a) * FRAME_SECONDS)) is not None
    ]
    if not found:
        return len(samples)
    _, a, b = max(found)
    margin = min((b - a) / 2, MARGIN_SECONDS / FRAME_SECONDS)
    return int((first + b - margin) * frame)


def _later(seconds: float) -> float | None:
    """By how much a pause of this length must be later than a long one; None if it is too short."""
    return next((later for least, later in PAUSES_SECONDS if seconds >= least), None)


def _quiet(power: NDArray[np.float64], first: int) -> NDArray[np.bool_]:
    """Which frames from `first` are pauses; none where nothing stands out, as in a steady tone."""
    searched = power[first:]
    if len(searched) < 2:
        return np.zeros(len(searched), np.bool_)
    floor = max(FAINT, float(np.min(searched[1:] + searched[:-1]) / 2))
    loud = max(FAINT, float(np.percentile(power, 95)))
    # 6 dB over the deepest dip, or 35 dB under the speech where that is digital silence.
    threshold = min(max(4 * floor, loud / 3000), loud / 4)
    return np.less_equal(searched, threshold) & (loud >= 4 * floor)


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Half-open stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
