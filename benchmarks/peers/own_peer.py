"""This project's provider: NAME of a pulled model; runs in this project's own environment."""

import io
import sys
from pathlib import Path

from speak_lines import serve

from app.audio import decode
from app.audio.windows import plan, stitch
from models import registry
from models.base import TranscribeOptions, Utterance

provider = registry.load(sys.argv[1])
BATCH = 8


def hear(request):
    data = io.BytesIO(Path(request["file"]).read_bytes())
    rate = provider.sample_rate
    blocks = decode.blocks(data, rate=rate, max_seconds=86_400)
    windows = list(plan(blocks, rate=rate, max_seconds=provider.window_seconds))
    parts, options = [], TranscribeOptions()
    for first in range(0, len(windows), BATCH):
        batch = windows[first : first + BATCH]
        texts = provider.transcribe([window.samples for window in batch], options)
        parts += [(w.start / rate, text) for w, text in zip(batch, texts, strict=True)]
        options = TranscribeOptions(language=parts[0][1].language)
    transcript = stitch(parts, duration=windows[-1].end / rate if windows else 0.0)
    return {"text": transcript.text, "language": transcript.language}


def say(request):
    utterances = (
        [Utterance(text=request["text"], phonemes=request["phonemes"])]
        if "phonemes" in request
        else provider.plan_speech(request["text"])
    )
    speech = provider.synthesize(utterances, voice="af_heart", speed=1.0)
    return {"audio_seconds": sum(map(len, speech)) / provider.sample_rate}


def work(request):
    return hear(request) if "file" in request else say(request)


serve(work)
