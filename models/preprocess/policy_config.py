"""The policy that a checkpoint's own JSON files ask for, within what its family can do.

A known key of the wrong type, or beyond the family's pinned bounds, is refused in words: the model
must not start with half its policy. Owns paths, order and texts; the numbers stand in policy.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.preprocess.errors import SizeOverflow, SourceFailed
from models.preprocess.frontends import FRONTENDS
from models.preprocess.policy import (
    PINNED,
    SAMPLE_RATE,
    U32_MAX,
    AudioPolicy,
    Family,
)

U16_MAX = (1 << 16) - 1
U64_MAX = (1 << 64) - 1
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
# Samples of a window; Gemma's extractor calls it 512 and unfolds one more for pre-emphasis.
FRAME_LENGTHS = {Family.PHI4MM: (400,), Family.GEMMA3N: (512, 513)}

Root = Mapping[str, Any]

_RATE = (
    "audio_processor.sampling_rate",
    "audio_processor.sample_rate",
    "feature_extractor.sampling_rate",
    "sampling_rate",
)
_SAMPLES = (
    "audio_processor.max_audio_samples",
    "feature_extractor.max_length",
    "max_audio_samples",
)
_SECONDS = tuple(
    group + key
    for group in ("audio_processor.", "feature_extractor.", "")
    for key in ("max_audio_duration", "max_duration_seconds")
)
_FRAME_LENGTH = ("audio_processor.frame_length_samples", "feature_extractor.frame_length")
_FRAME_HOP = ("audio_processor.frame_hop_samples", "feature_extractor.hop_length")
_CHANNELS = ("audio_processor.channels", "feature_extractor.channels")
_DTYPE = ("audio_processor.dtype", "feature_extractor.dtype")
_LIMITS = "mlxcel_audio_limits."
_ALGORITHM = (_LIMITS + "resampling_algorithm",)
_MAX_RATE = "maximum_source_sample_rate"
# Keys of `mlxcel_audio_limits` in the order they are read, and the fields they set.
_BOUNDS = {
    key: "max_source_sample_rate" if key == _MAX_RATE else key
    for key in (
        "max_encoded_bytes_per_clip",
        "max_clips",
        "max_encoded_bytes_per_request",
        "max_source_samples_per_request",
        "max_normalized_samples_per_request",
        "max_frames_per_request",
        "max_waveform_result_bytes_per_request",
        "max_waveform_working_bytes_per_request",
        "max_prepared_result_bytes_per_request",
        "max_source_duration_micros_per_request",
        _MAX_RATE,
    )
}
# Fields that may be lowered but not raised, in the order they are compared.
_MAXIMA = {
    "max_encoded_bytes_per_clip": "per-clip encoded byte cap",
    "max_clips": "clip cap",
    "max_source_sample_rate": "maximum source sample rate",
    "max_encoded_bytes_per_request": "request encoded byte cap",
    "max_source_samples_per_request": "request source sample cap",
    "max_normalized_samples_per_request": "request normalized sample cap",
    "max_source_duration_micros_per_request": "request source duration cap",
    "max_frames_per_request": "request feature frame cap",
    "max_waveform_result_bytes_per_request": "waveform result byte cap",
    "max_waveform_working_bytes_per_request": "waveform working byte cap",
    "max_prepared_result_bytes_per_request": "prepared result byte cap",
}


def load_policy(family: Family, directory: Path) -> AudioPolicy:
    """The policy of the checkpoint in a directory; files that are not there ask for nothing."""
    config = _read(directory / "config.json")
    return derive_policy(family, processor=_read_processor(directory), config=config or {})


def derive_policy(family: Family, *, processor: Root, config: Root) -> AudioPolicy:
    pinned = PINNED[family]
    lookup = _Lookup(processor, config)
    policy = _with_length(pinned, lookup)
    bounds: dict[str, Any] = {
        field: lookup.number((_LIMITS + key,), getattr(policy, field), _most(key))
        for key, field in _BOUNDS.items()
    }
    policy = replace(policy, **bounds)
    policy = replace(
        policy,
        frame_length=lookup.number(_FRAME_LENGTH, policy.frame_length, U32_MAX),
        frame_hop=lookup.number(_FRAME_HOP, policy.frame_hop, U32_MAX),
        channels=lookup.number(_CHANNELS, policy.channels, U16_MAX),
    )
    _check_strings(pinned, lookup)
    _check_frontend(policy, pinned)
    _check_maxima(policy, pinned)
    seconds = -(-policy.max_samples_per_clip // SAMPLE_RATE)
    return replace(
        policy,
        max_duration_seconds=seconds,
        max_frames_per_clip=FRONTENDS[family].frames(policy.max_samples_per_clip, SAMPLE_RATE),
        source="model processor config" if lookup.found else pinned.source,
    )


class _Lookup:
    """Values by path: the first root that has any of an item's paths decides."""

    def __init__(self, *roots: Root) -> None:
        self._roots = roots
        self.found = False

    def number(self, paths: tuple[str, ...], default: int, most: int = U64_MAX) -> int:
        match = self._first(paths)
        if match is None:
            return default
        pointer, value = match
        number = _number(pointer, value)
        if number > most:
            raise SizeOverflow(pointer)
        return number

    def string(self, paths: tuple[str, ...], default: str) -> str:
        match = self._first(paths)
        return default if match is None else _string(*match)

    def has(self, paths: tuple[str, ...]) -> bool:
        return next(self._matches(paths), None) is not None

    def _first(self, paths: tuple[str, ...]) -> tuple[str, object] | None:
        """A JSON pointer and what it points at; a null counts as there."""
        match = next(self._matches(paths), None)
        self.found = self.found or match is not None
        return match

    def _matches(self, paths: tuple[str, ...]) -> Iterator[tuple[str, object]]:
        for root in self._roots:
            for path in paths:
                *groups, key = path.split(".")
                holder: object = root
                for group in groups:
                    holder = holder.get(group) if isinstance(holder, Mapping) else None
                if isinstance(holder, Mapping) and key in holder:
                    yield "/" + path.replace(".", "/"), holder[key]


def _with_length(pinned: AudioPolicy, lookup: _Lookup) -> AudioPolicy:
    rate = lookup.number(_RATE, pinned.sample_rate, U32_MAX)
    samples = lookup.number(_SAMPLES, pinned.max_samples_per_clip)
    if lookup.has(_SECONDS):
        seconds = lookup.number(_SECONDS, pinned.max_duration_seconds, U32_MAX)
        if not 1 <= seconds <= pinned.max_duration_seconds:
            raise _invalid(
                "max audio duration must be positive and no larger than the pinned family maximum"
            )
        samples = min(samples, rate * seconds)
    return replace(pinned, sample_rate=rate, max_samples_per_clip=samples)


def _check_strings(pinned: AudioPolicy, lookup: _Lookup) -> None:
    if lookup.string(_DTYPE, pinned.dtype) != pinned.dtype:
        raise _invalid("only f32 waveform dtype is supported")
    algorithm = lookup.string(_ALGORITHM, pinned.resampling)
    if algorithm != pinned.resampling:
        raise _invalid("resampling algorithm does not match the pinned family frontend")


def _check_frontend(policy: AudioPolicy, pinned: AudioPolicy) -> None:
    bounds = [getattr(policy, field) for field in _MAXIMA]
    compatible = (
        policy.sample_rate == SAMPLE_RATE
        and policy.channels == 1
        and policy.max_samples_per_clip > 0
        and all(bounds)
        and policy.max_source_sample_rate >= policy.min_source_sample_rate
        and policy.frame_length in FRAME_LENGTHS[policy.family]
        and policy.frame_hop == pinned.frame_hop
    )
    if not compatible:
        raise _invalid(
            "loaded audio policy is incompatible with the pinned mono f32 16 kHz processor"
        )


def _check_maxima(policy: AudioPolicy, pinned: AudioPolicy) -> None:
    if policy.max_samples_per_clip > SAMPLE_RATE * pinned.max_duration_seconds:
        raise _invalid("loaded audio sample cap exceeds the pinned family duration")
    for field, name in _MAXIMA.items():
        if getattr(policy, field) > getattr(pinned, field):
            raise _invalid(f"{name} cannot exceed the pinned family maximum")


def _number(pointer: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64_MAX:
        return value
    raise _invalid(f"{pointer} must be a non-negative integer, got {_type(value)}")


def _string(pointer: str, value: object) -> str:
    if isinstance(value, str):
        return value
    # Texts that name a number say more where one was wanted.
    kind = _type(value).removesuffix(" outside the accepted integer range")
    raise _invalid(f"{pointer} must be a string, got {kind}")


def _type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number outside the accepted integer range"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _most(key: str) -> int:
    return U32_MAX if key == _MAX_RATE else U64_MAX


def _invalid(reason: str) -> SourceFailed:
    return SourceFailed(0, f"invalid loaded audio processor config: {reason}")


def _read_processor(directory: Path) -> Root:
    """The first of the files that parses; one that is there but broken counts if no other does."""
    failure: SourceFailed | None = None
    for name in PROCESSOR_FILES:
        try:
            found = _read(directory / name)
        except SourceFailed as error:
            failure = failure or error
            continue
        if found is not None:
            return found
    if failure:
        raise failure
    return {}


def _read(file: Path) -> Root | None:
    try:
        root = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(f"{file.name} cannot be read: {error}") from error
    if not isinstance(root, dict):
        raise _invalid(f"{file.name} is not a JSON object")
    return root
