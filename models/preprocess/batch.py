"""The clips of one request as normalised waveforms, with every number recorded: the boundary.

`prepare` is the one way in, for the command line and for requests; clips keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from models.base import Samples
from models.preprocess.cancellation import Cancelled, Checkpoint, never, poll_at
from models.preprocess.decode import decode
from models.preprocess.errors import EmptyClip
from models.preprocess.frontends import FRONTENDS
from models.preprocess.policy import AudioPolicy, Family
from models.preprocess.preflight import (
    check,
    check_duration_samples,
    checked_frames,
    duration_micros,
    preflight,
)
from models.preprocess.source import EncodedClip, OpenedClip, SourceKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalizedClip:
    samples: Samples
    sample_rate: int
    """Hz; what the samples are taken for."""
    source_sample_rate: int
    source_channels: int
    source_samples: int
    """Frames, of all channels at once."""
    source_duration_micros: int
    encoded_bytes: int
    source_kind: SourceKind
    placeholder_ordinal: int
    feature_frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a clip lies in the normalised samples of the batch, laid end to end."""

    clip_index: int
    placeholder_ordinal: int
    start_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaveformBatch:
    family: Family
    clips: tuple[NormalizedClip, ...]
    boundaries: tuple[Boundary, ...]
    total_source_samples: int
    total_samples: int
    total_source_duration_micros: int
    estimated_frames: int
    effective_audio_tokens: int


def prepare(
    clips: Sequence[EncodedClip], policy: AudioPolicy, cancelled: Cancelled = never
) -> WaveformBatch:
    poll_at(cancelled, Checkpoint.ACQUISITION, None)()
    if not clips:
        raise EmptyClip(0)
    check("clip count", len(clips), policy.max_clips)
    opened = preflight(clips, policy, cancelled)
    return _batch(
        policy.family,
        tuple(
            _normalized(index, clip, source, policy, cancelled)
            for index, (clip, source) in enumerate(zip(clips, opened, strict=True))
        ),
    )


def _normalized(
    index: int, clip: EncodedClip, source: OpenedClip, policy: AudioPolicy, cancelled: Cancelled
) -> NormalizedClip:
    poll = poll_at(cancelled, Checkpoint.DECODE, index)
    decoded = decode(source, clip=index, bounds=policy, poll=poll)
    frontend = FRONTENDS[policy.family]
    # Compressed headers may have declared another length.
    rate = frontend.shape(len(decoded), source.sample_rate).sample_rate
    poll = poll_at(cancelled, Checkpoint.RESAMPLE, index)
    samples = frontend.resample(decoded, source.sample_rate, poll)
    check_duration_samples(len(samples), rate, policy)
    return NormalizedClip(
        samples=samples,
        sample_rate=rate,
        source_sample_rate=source.sample_rate,
        source_channels=source.channels,
        source_samples=len(decoded),
        source_duration_micros=duration_micros(len(decoded), source.sample_rate),
        encoded_bytes=len(clip.data),
        source_kind=clip.kind,
        placeholder_ordinal=clip.placeholder_ordinal,
        feature_frames=checked_frames(len(samples), rate, policy),
    )


def _batch(family: Family, clips: tuple[NormalizedClip, ...]) -> WaveformBatch:
    ends = list(accumulate(len(clip.samples) for clip in clips))
    return WaveformBatch(
        family=family,
        clips=clips,
        boundaries=tuple(
            Boundary(
                clip_index=index,
                placeholder_ordinal=clip.placeholder_ordinal,
                start_sample=end - len(clip.samples),
                end_sample=end,
            )
            for index, (clip, end) in enumerate(zip(clips, ends, strict=True))
        ),
        total_source_samples=sum(clip.source_samples for clip in clips),
        total_samples=ends[-1],
        total_source_duration_micros=sum(clip.source_duration_micros for clip in clips),
        estimated_frames=sum(clip.feature_frames for clip in clips),
        effective_audio_tokens=sum(FRONTENDS[family].tokens(clip.feature_frames) for clip in clips),
    )
