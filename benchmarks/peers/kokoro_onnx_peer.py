"""kokoro-onnx: ONNX_FILE CHECKPOINT_DIR; phonemes are given, so that only the model counts."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from kokoro_onnx import Kokoro
from safetensors.numpy import load_file
from speak_lines import serve

file, directory = sys.argv[1], Path(sys.argv[2])
voice = load_file(directory / "voices" / "af_heart.safetensors")["voice"]
with tempfile.NamedTemporaryFile(suffix=".npz") as voices:
    np.savez(voices, af_heart=voice)
    voices.flush()
    model = Kokoro(file, voices.name, vocab_config=str(directory / "config.json"))


def work(request):
    samples, rate = model.create(
        request["phonemes"], voice=voice, speed=1.0, is_phonemes=True, trim=False
    )
    return {"audio_seconds": len(samples) / rate}


serve(work, "kokoro-onnx", "onnxruntime")
