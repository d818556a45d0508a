"""mlx-whisper as installed: MODEL_DIR in the native MLX layout."""

import sys

import mlx_whisper
import soundfile
import soxr
from speak_lines import fits_a_window, serve


def read(path):
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    return mono if rate == 16_000 else soxr.resample(mono, rate, 16_000)


def work(request):
    result = mlx_whisper.transcribe(
        read(request["file"]),
        path_or_hf_repo=sys.argv[1],
        temperature=0.0,
        condition_on_previous_text=False,
        without_timestamps=fits_a_window(request),
        fp16=False,
    )
    return {"text": result["text"].strip(), "language": result["language"]}


serve(work, "mlx-whisper", "mlx")
