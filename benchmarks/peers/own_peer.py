"""This project's provider: NAME of a pulled model; runs in this project's own environment."""

import io
import sys
from pathlib import Path

import soundfile
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
    """Phonemes may be given, as they are to the peers; the speech may be kept."""
    utterances = (
        [Utterance(text=request["text"], phonemes=request["phonemes"])]
        if "phonemes" in request
        else provider.plan_speech(request["text"])
    )
    voice = request.get("voice", "af_heart")
    speech = provider.synthesize(utterances, voice=voice, speed=1.0)
    if "save" in request:
        with soundfile.SoundFile(request["save"], "w", provider.sample_rate, 1) as file:
            for samples in speech:
                file.write(samples)
    return {"audio_seconds": sum(map(len, speech)) / provider.sample_rate}


def spell(request):
    """A sentence as the phonemes that all systems are given."""
    (utterance,) = provider.plan_speech(request["spell"])
    return {"phonemes": utterance.phonemes}


def work(request):
    if "file" in request:
        return hear(request)
    return spell(request) if "spell" in request else say(request)


serve(work, "voxqueue", "mlx")
