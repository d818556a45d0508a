"""The systems that are compared, and the same weights in the layout that each of them reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.runner import ROOT, System
from models.catalog import checkpoint_path

OWN = Path(sys.executable)
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
MLX_WHISPER_PYTHON = ROOT / ".venv-mlx-whisper" / "bin" / "python"
WORK = ROOT / "data" / "benchmarks"

# Whisper's sizes under the names that mlx-whisper reads.
_CONVERT = """
import json, sys
from pathlib import Path
from models.backend import mx
from models.whisper.layouts import read
source, target = Path(sys.argv[1]), Path(sys.argv[2])
tensors = {
    name: tensor if isinstance(tensor, mx.array) else mx.array(tensor.read())
    for name, tensor in read(source).tensors.items()
    if name != "encoder.positional_embedding"  # computed, not loaded, by the peers
}
mx.save_safetensors(str(target / "weights.safetensors"), tensors)
def layers(side):
    return 1 + max(int(k.split(".")[2]) for k in tensors if k.startswith(side + ".blocks"))
audio, _, mels = tensors["encoder.conv1.weight"].shape
vocab, text = tensors["decoder.token_embedding.weight"].shape
json.dump(dict(n_mels=mels, n_audio_ctx=1500, n_audio_state=audio, n_audio_head=audio // 64,
    n_audio_layer=layers("encoder"), n_vocab=vocab,
    n_text_ctx=tensors["decoder.positional_embedding"].shape[0], n_text_state=text,
    n_text_head=text // 64, n_text_layer=layers("decoder")),
    open(target / "config.json", "w"))
"""


def native_whisper(name: str) -> Path:
    """The checkpoint in the native MLX layout, converted once."""
    target = WORK / f"{name}-mlx"
    if not (target / "config.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", _CONVERT, str(checkpoint_path(name)), str(target)]
        subprocess.run(command, check=True, cwd=ROOT)
    return target


def whisper_systems(name: str, *, slow: bool) -> list[System]:
    directory = str(checkpoint_path(name))
    systems = [System("voxqueue", OWN, "own_peer.py", (name,))]
    if PEERS_PYTHON.exists():
        systems += [
            System(
                f"faster-whisper {compute}" + (" batched" if batch else ""),
                PEERS_PYTHON,
                "faster_whisper_peer.py",
                (directory, compute, str(batch)),
            )
            for compute, batch in (("int8", 0), ("int8", 8), ("float32", 0), ("float32", 8))
        ]
        weights = str(native_whisper(name) / "weights.safetensors")
        systems.append(System("openai-whisper", PEERS_PYTHON, "openai_whisper_peer.py", (weights,)))
    if slow and MLX_WHISPER_PYTHON.exists():
        native = str(native_whisper(name))
        systems.append(System("mlx-whisper", MLX_WHISPER_PYTHON, "mlx_whisper_peer.py", (native,)))
    return systems


def machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    return json.dumps({"processor": model, "python": sys.version.split()[0]})
