"""What the families do differently before their networks, as one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.base import Samples
from models.preprocess import frames, resample
from models.preprocess.cancellation import Poll
from models.preprocess.policy import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    shape: Callable[[int, int], resample.Shape]
    """Samples and Hz of a source, to what resampling makes of them."""
    resample: Callable[[Samples, int, Poll], Samples]
    frames: Callable[[int, int], int]
    """Samples and their Hz, to feature frames."""
    tokens: Callable[[int], int]
    """Feature frames of a clip, to audio tokens."""
    caps_by_seconds: bool
    """Whether a clip is held to seconds at its own rate, or to samples."""


FRONTENDS = {
    Family.PHI4MM: Frontend(
        shape=resample.polyphase_shape,
        resample=resample.polyphase,
        frames=frames.phi4mm_frames,
        tokens=frames.phi4mm_tokens,
        caps_by_seconds=True,
    ),
    Family.GEMMA3N: Frontend(
        shape=resample.linear_shape,
        resample=resample.linear,
        frames=frames.gemma3n_frames,
        tokens=frames.gemma3n_tokens,
        caps_by_seconds=False,
    ),
}
