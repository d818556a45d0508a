"""faster-whisper: MODEL_DIR, or a size to get from the hub, COMPUTE_TYPE BATCH (0: sequential)."""

import sys

from faster_whisper import BatchedInferencePipeline, WhisperModel
from speak_lines import THREADS, fits_a_window, serve

directory, compute, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = WhisperModel(directory, device="cpu", compute_type=compute, cpu_threads=THREADS)
pipeline = BatchedInferencePipeline(model) if batch else model
options = {"beam_size": 1, "temperature": 0.0}
if batch:
    options["batch_size"] = batch


def work(request):
    whole = batch > 0 or fits_a_window(request)
    segments, info = pipeline.transcribe(request["file"], without_timestamps=whole, **options)
    text = " ".join(segment.text.strip() for segment in segments)
    return {"text": text, "language": info.language}


serve(work, "faster-whisper", "ctranslate2")
