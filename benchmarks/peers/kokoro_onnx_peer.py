"""kokoro-onnx (int8): ONNX_FILE VOICES_NPZ; phonemes are given, so that only the model counts."""

import sys

from kokoro_onnx import Kokoro
from speak_lines import serve

model = Kokoro(sys.argv[1], sys.argv[2])


def work(request):
    samples, rate = model.create(
        request["phonemes"], voice="af_heart", speed=1.0, is_phonemes=True, trim=False
    )
    return {"audio_seconds": len(samples) / rate}


serve(work)
