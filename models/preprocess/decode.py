"""One encoded clip to mono samples in [-1, 1], at its own rate.

The bytes decide the container. Allocates what the header declared and never more than the bounds
permit.
"""

from __future__ import annotations

import numpy as np

from models.base import Samples
from models.containers.geometry import Container
from models.containers.sniff import SNIFF_BYTES, sniff
from models.preprocess.cancellation import Poll
from models.preprocess.errors import EmptyClip, NonFiniteSample
from models.preprocess.packed import open_packed
from models.preprocess.source import OpenedClip, SourceBounds, check_duration
from models.preprocess.wav import open_wav


def open_clip(data: bytes, *, clip: int, bounds: SourceBounds, poll: Poll) -> OpenedClip:
    """Read and check the header; what nothing recognises is answered by the WAV reader."""
    container = sniff(data[:SNIFF_BYTES])
    if container in (Container.MP3, Container.FLAC):
        return open_packed(data, container, clip=clip, bounds=bounds, poll=poll)
    return open_wav(data, clip=clip, bounds=bounds, poll=poll)


def decode(opened: OpenedClip, *, clip: int, bounds: SourceBounds, poll: Poll) -> Samples:
    out = np.empty(opened.frames, np.float32)
    filled = 0
    for position, block in opened.blocks(poll):
        end = filled + len(block)
        check_duration(end, opened.sample_rate, bounds)
        if end > len(out):  # a header that declared too little
            most = opened.sample_rate * bounds.max_duration_seconds
            out = np.concatenate([out[:filled], np.empty(min(2 * end, most) - filled, np.float32)])
        out[filled:end] = _mono(block, position, clip)
        filled = end
    if filled == 0:
        raise EmptyClip(clip)
    return out if filled == len(out) else out[:filled].copy()


def _mono(block: Samples, position: int, clip: int) -> Samples:
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        raise NonFiniteSample(clip, position + int(finite.argmin()))
    mean = block.sum(axis=1, dtype=np.float64) / block.shape[1]
    mono: Samples = np.clip(mean, -1, 1).astype(np.float32)
    return mono
