"""The torch kokoro package: CHECKPOINT_DIR; phonemes are given, so that only the model counts."""

import json
import sys
import tempfile
from pathlib import Path

import torch
from kokoro import KModel
from safetensors.torch import load_file
from speak_lines import THREADS, serve

torch.set_num_threads(THREADS)
directory = Path(sys.argv[1])
config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
with tempfile.NamedTemporaryFile(suffix=".pth") as none:  # or it would ask the hub
    torch.save({}, none.name)
    model = KModel(repo_id="hexgrad/Kokoro-82M", config=config, model=none.name).eval()
weights = load_file(directory / "kokoro-v1_0.safetensors")
missing, unexpected = model.load_state_dict(
    {name: tensor.float() for name, tensor in weights.items()}, strict=False
)
assert not unexpected, unexpected
assert all("norm" in name for name in missing), missing  # instance norms that learn nothing
voice = load_file(directory / "voices" / "af_heart.safetensors")["voice"]


def work(request):
    phonemes = request["phonemes"]
    samples = model(phonemes, voice[len(phonemes) - 1], 1.0)
    return {"audio_seconds": len(samples) / 24_000}


serve(work, "kokoro", "torch")
