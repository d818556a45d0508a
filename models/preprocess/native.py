"""One clip at its own rate, for models whose own processor makes the features.

The strict readers of the boundary under bounds that no family pins; nothing is resampled.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.base import Samples
from models.preprocess.cancellation import Cancelled, Checkpoint, never, poll_at
from models.preprocess.decode import decode, open_clip
from models.preprocess.policy import U32_MAX
from models.preprocess.preflight import check


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeBounds:
    min_source_sample_rate: int = 1
    max_source_sample_rate: int = U32_MAX  # none but what a header can say
    max_duration_seconds: int = 24 * 3_600
    max_encoded_bytes_per_clip: int = 500 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NativeClip:
    samples: Samples
    sample_rate: int
    """Hz; of its source."""


NATIVE = NativeBounds()


def decode_native(
    data: bytes, *, bounds: NativeBounds = NATIVE, cancelled: Cancelled = never
) -> NativeClip:
    check("encoded bytes per clip", len(data), bounds.max_encoded_bytes_per_clip)
    poll = poll_at(cancelled, Checkpoint.DECODE, 0)
    opened = open_clip(data, clip=0, bounds=bounds, poll=poll)
    samples = decode(opened, clip=0, bounds=bounds, poll=poll)
    return NativeClip(samples=samples, sample_rate=opened.sample_rate)
