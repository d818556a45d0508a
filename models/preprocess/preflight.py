"""The bounds of one request, checked from headers alone, before anything is decoded.

Bounds are sums over the request, not the bound of a clip times the number of clips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from models.preprocess.cancellation import Cancelled, Checkpoint, poll_at
from models.preprocess.decode import open_clip
from models.preprocess.errors import EmptyClip, LimitExceeded, PlaceholderInvalid
from models.preprocess.frontends import FRONTENDS
from models.preprocess.policy import AudioPolicy
from models.preprocess.source import EncodedClip, OpenedClip

BYTES_A_SAMPLE = 4
MICROS = 1_000_000  # a second


def preflight(
    clips: Sequence[EncodedClip], policy: AudioPolicy, cancelled: Cancelled
) -> list[OpenedClip]:
    """Every clip opened, or the first bound that one of them breaks."""
    totals = _Totals(policy)
    opened = [totals.add(index, clip, cancelled) for index, clip in enumerate(clips)]
    totals.check_memory()
    return opened


def check_duration_samples(samples: int, sample_rate: int, policy: AudioPolicy) -> None:
    by_seconds = sample_rate * policy.max_duration_seconds
    caps_by_seconds = FRONTENDS[policy.family].caps_by_seconds
    check(
        "duration samples", samples, by_seconds if caps_by_seconds else policy.max_samples_per_clip
    )


def checked_frames(samples: int, sample_rate: int, policy: AudioPolicy) -> int:
    """The feature frames of a resampled clip that is allowed by itself."""
    frames = FRONTENDS[policy.family].frames(samples, sample_rate)
    check("feature frames per clip", frames, policy.max_frames_per_clip)
    return frames


def check(limit: str, actual: int, maximum: int) -> None:
    if actual > maximum:
        raise LimitExceeded(limit, actual=actual, maximum=maximum)


def duration_micros(frames: int, sample_rate: int) -> int:
    return frames * MICROS // sample_rate


@dataclass(slots=True)
class _Totals:
    policy: AudioPolicy
    encoded_bytes: int = field(default=0, init=False)
    source_samples: int = field(default=0, init=False)
    micros: int = field(default=0, init=False)
    samples: int = field(default=0, init=False)
    frames: int = field(default=0, init=False)
    largest_source: int = field(default=0, init=False)

    def add(self, index: int, clip: EncodedClip, cancelled: Cancelled) -> OpenedClip:
        self._add_encoded(index, clip)
        poll = poll_at(cancelled, Checkpoint.DECODE, index)
        opened = open_clip(clip.data, clip=index, bounds=self.policy, poll=poll)
        self._add_source(opened)
        self._add_normalized(opened)
        return opened

    def check_memory(self) -> None:
        policy, result = self.policy, BYTES_A_SAMPLE * self.samples
        working = BYTES_A_SAMPLE * self.largest_source + result
        check(
            "waveform result bytes per request",
            result,
            policy.max_waveform_result_bytes_per_request,
        )
        check(
            "waveform working bytes per request",
            working,
            policy.max_waveform_working_bytes_per_request,
        )

    def _add_encoded(self, index: int, clip: EncodedClip) -> None:
        policy, size = self.policy, len(clip.data)
        if clip.placeholder_ordinal != index + 1:
            raise PlaceholderInvalid(
                f"clip {index} maps to ordinal {clip.placeholder_ordinal}, expected {index + 1}"
            )
        if not size:
            raise EmptyClip(index)
        check("encoded bytes per clip", size, policy.max_encoded_bytes_per_clip)
        self.encoded_bytes += size
        check("encoded bytes per request", self.encoded_bytes, policy.max_encoded_bytes_per_request)

    def _add_source(self, opened: OpenedClip) -> None:
        policy = self.policy
        self.source_samples += opened.frames
        self.largest_source = max(self.largest_source, opened.frames)
        check(
            "source samples per request",
            self.source_samples,
            policy.max_source_samples_per_request,
        )
        self.micros += duration_micros(opened.frames, opened.sample_rate)
        check(
            "source duration micros per request",
            self.micros,
            policy.max_source_duration_micros_per_request,
        )

    def _add_normalized(self, opened: OpenedClip) -> None:
        policy = self.policy
        shape = FRONTENDS[policy.family].shape(opened.frames, opened.sample_rate)
        check_duration_samples(shape.samples, shape.sample_rate, policy)
        self.samples += shape.samples
        check(
            "normalized samples per request",
            self.samples,
            policy.max_normalized_samples_per_request,
        )
        self.frames += checked_frames(shape.samples, shape.sample_rate, policy)
        check("feature frames per request", self.frames, policy.max_frames_per_request)
