"""The systems that are compared: this project, and the peers that are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import weights
from benchmarks.alternate import FEW_BITS, OWN
from benchmarks.runner import ROOT, Program
from models.catalog import checkpoint_path

PYTHON = Path(sys.executable)
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
MLX_WHISPER_PYTHON = ROOT / ".venv-mlx-whisper" / "bin" / "python"
FASTER_WHISPER = {  # name: compute type, windows in a batch (0: one after the other)
    "faster-whisper int8": ("int8", 0),
    "faster-whisper int8 batched": ("int8", 8),
    "faster-whisper float32": ("float32", 0),
    "faster-whisper float32 batched": ("float32", 8),
}
SLOW = "mlx-whisper as installed"


def own(model: str, name: str = OWN) -> Program:
    return Program(name, PYTHON, "own_peer.py", (model,))


def in_few_bits(model: str) -> Program:
    return own(str(weights.in_few_bits(model)), FEW_BITS)


def whisper_peers(model: str) -> Iterator[Program]:
    if PEERS_PYTHON.exists():
        for name, (compute, batch) in FASTER_WHISPER.items():
            arguments = (weights.faster_whisper(model), compute, str(batch))
            yield Program(name, PEERS_PYTHON, "faster_whisper_peer.py", arguments)
        native = (str(weights.native_whisper(model)),)
        yield Program("openai-whisper", PEERS_PYTHON, "openai_whisper_peer.py", native)
    if MLX_WHISPER_PYTHON.exists():
        native = (str(weights.native_whisper(model)),)
        yield Program(SLOW, MLX_WHISPER_PYTHON, "mlx_whisper_peer.py", native)


def kokoro_peers(model: str) -> Iterator[Program]:
    directory = str(checkpoint_path(model))
    if PEERS_PYTHON.exists():
        onnx = (str(weights.kokoro_onnx()), directory)
        yield Program("kokoro-onnx int8", PEERS_PYTHON, "kokoro_onnx_peer.py", onnx)
        yield Program("kokoro (torch)", PEERS_PYTHON, "torch_kokoro_peer.py", (directory,))
