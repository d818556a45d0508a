"""What a model family takes in: rates, lengths, and bounds of one request.

Owns the policy as a value and the pinned defaults of each family. Reads no file: what a checkpoint
changes is policy_config's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SAMPLE_RATE = 16_000  # Hz, what every family hears
U32_MAX = (1 << 32) - 1


class Family(StrEnum):
    PHI4MM = "phi4mm"
    GEMMA3N = "gemma3n"


class Resampling(StrEnum):
    SCIPY_POLYPHASE_INTEGER = "scipy_polyphase_integer"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPolicy:
    family: Family
    source: str
    """Where the numbers come from."""
    sample_rate: int = SAMPLE_RATE
    """Hz."""
    min_source_sample_rate: int
    max_source_sample_rate: int
    channels: int = 1
    dtype: str = "f32"
    resampling: Resampling
    max_duration_seconds: int
    max_samples_per_clip: int
    max_frames_per_clip: int
    max_encoded_bytes_per_clip: int
    max_clips: int
    max_encoded_bytes_per_request: int
    max_source_samples_per_request: int
    max_normalized_samples_per_request: int
    max_source_duration_micros_per_request: int
    max_frames_per_request: int
    max_waveform_result_bytes_per_request: int
    max_waveform_working_bytes_per_request: int
    max_prepared_result_bytes_per_request: int
    frame_length: int
    """Samples."""
    frame_hop: int
    soft_tokens_per_clip: int | None
    """None where the length of a clip decides."""


PINNED = {
    Family.PHI4MM: AudioPolicy(
        family=Family.PHI4MM,
        source="pinned default, Transformers revision 93f923e1a7727d1c4f446756212d9d3e8fcc5d81",
        min_source_sample_rate=8_000,
        max_source_sample_rate=192_000,
        resampling=Resampling.SCIPY_POLYPHASE_INTEGER,
        max_duration_seconds=1_800,
        max_samples_per_clip=28_800_000,
        max_frames_per_clip=179_998,
        max_encoded_bytes_per_clip=256 << 20,
        max_clips=16,
        max_encoded_bytes_per_request=256 << 20,
        max_source_samples_per_request=345_600_000,
        max_normalized_samples_per_request=28_800_000,
        max_source_duration_micros_per_request=1_800_000_000,
        max_frames_per_request=179_998,
        max_waveform_result_bytes_per_request=128 << 20,
        max_waveform_working_bytes_per_request=512 << 20,
        max_prepared_result_bytes_per_request=256 << 20,
        frame_length=400,
        frame_hop=160,
        soft_tokens_per_clip=None,
    ),
    Family.GEMMA3N: AudioPolicy(
        family=Family.GEMMA3N,
        source="pinned default, Transformers revision 181beb3ba4c47098ed8cbc97ee250d1d45ae0107",
        min_source_sample_rate=1,
        max_source_sample_rate=192_000,
        resampling=Resampling.LINEAR,
        max_duration_seconds=30,
        max_samples_per_clip=480_000,
        max_frames_per_clip=2_997,
        max_encoded_bytes_per_clip=64 << 20,
        max_clips=16,
        max_encoded_bytes_per_request=64 << 20,
        max_source_samples_per_request=5_760_000,
        max_normalized_samples_per_request=480_000,
        max_source_duration_micros_per_request=30_000_000,
        max_frames_per_request=2_997,
        max_waveform_result_bytes_per_request=2 << 20,
        max_waveform_working_bytes_per_request=32 << 20,
        max_prepared_result_bytes_per_request=64 << 20,
        frame_length=513,
        frame_hop=160,
        soft_tokens_per_clip=188,
    ),
}
