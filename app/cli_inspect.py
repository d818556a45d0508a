"""``voxqueue inspect``: what the waveform boundary makes of audio files, and by which policy.

Runs the code that serves requests, so that its numbers and its refusals are the service's own.
Answers go to stdout, refusals to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from models.base import ModelError
from models.catalog import checkpoint_path
from models.preprocess.acquisition import read_file
from models.preprocess.batch import NormalizedClip, WaveformBatch, prepare
from models.preprocess.policy import PINNED, AudioPolicy, Family
from models.preprocess.policy_config import load_policy
from models.preprocess.source import EncodedClip, SourceKind

INTERRUPTED = 130  # as shells report SIGINT


def inspect(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="WAV, MP3 or FLAC.")],
    *,
    family: Annotated[Family, typer.Option(help="The model family that would hear them.")],
    model: Annotated[
        str | None, typer.Option(help="Checkpoint whose own limits hold: a name or a directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how one request with these files would be prepared, or why it would be refused."""
    with _reported():
        policy = load_policy(family, checkpoint_path(model)) if model else PINNED[family]
        batch = prepare(_clips(files, policy), policy)
    report = {"policy": asdict(policy), "batch": _batch(batch, files)}
    typer.echo(json.dumps(report, indent=2) if as_json else "\n".join(_lines(report)))


def _clips(files: list[Path], policy: AudioPolicy) -> list[EncodedClip]:
    return [
        EncodedClip(
            data=read_file(file, clip=index, max_bytes=policy.max_encoded_bytes_per_clip),
            kind=SourceKind.CLI_FILE,
            placeholder_ordinal=index + 1,
        )
        for index, file in enumerate(files)
    ]


def _batch(batch: WaveformBatch, files: list[Path]) -> dict[str, Any]:
    return {
        "family": batch.family,
        "total_source_samples": batch.total_source_samples,
        "total_samples": batch.total_samples,
        "total_source_duration_micros": batch.total_source_duration_micros,
        "estimated_frames": batch.estimated_frames,
        "effective_audio_tokens": batch.effective_audio_tokens,
        "boundaries": [asdict(boundary) for boundary in batch.boundaries],
        "clips": [_clip(clip, file) for clip, file in zip(batch.clips, files, strict=True)],
    }


def _clip(clip: NormalizedClip, file: Path) -> dict[str, Any]:
    return {
        "file": str(file),
        "source_kind": clip.source_kind,
        "placeholder_ordinal": clip.placeholder_ordinal,
        "encoded_bytes": clip.encoded_bytes,
        "source_sample_rate": clip.source_sample_rate,
        "source_channels": clip.source_channels,
        "source_samples": clip.source_samples,
        "source_duration_micros": clip.source_duration_micros,
        "sample_rate": clip.sample_rate,
        "samples": len(clip.samples),
        "feature_frames": clip.feature_frames,
    }


def _lines(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """A report as indented `name: value` lines."""
    indent = "  " * depth
    if isinstance(value, dict):
        if name:
            yield f"{indent[2:]}{name}:"
        for key, item in value.items():
            yield from _lines(item, key, depth + 1 if isinstance(item, dict | list) else depth)
    elif isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield from _lines(item, f"{name} {number}", depth)
    else:
        yield f"{indent}{name}: {value}"


@contextmanager
def _reported() -> Iterator[None]:
    """The refusal on stderr and a status, in place of a traceback."""
    try:
        yield
    except ModelError as error:
        typer.echo(f"voxqueue: {error}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"voxqueue: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
