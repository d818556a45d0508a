"""``python -m benchmarks.round_trip``: sentences spoken by Kokoro and transcribed by Whisper."""

from __future__ import annotations

import argparse
import time

import numpy as np
import soxr

from benchmarks.scoring import word_errors
from models import registry
from models.base import TranscribeOptions

SENTENCES = (
    "The morning train was late, so everybody waited on the platform.",
    "She opened the window and listened to the rain.",
    "Please send the report to the office before noon on Friday.",
    "A small river runs behind the old stone house.",
    "He bought three apples and seven oranges at the market.",
    "The doctor said that the patient would recover within two weeks.",
    "Nobody knew why the lights in the harbor went out.",
    "My brother plays the violin in a large orchestra.",
    "They walked for eleven miles across the frozen lake.",
    "If you follow this road, you will reach the village by evening.",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round_trip")
    parser.add_argument("--voice", default="af_heart")
    voice = parser.parse_args().voice
    speaker, listener = registry.load("kokoro-82m"), registry.load("whisper-base")
    options = TranscribeOptions(language="en")
    wrong = words = 0
    audio = spent = 0.0
    for sentence in SENTENCES:
        started = time.perf_counter()
        speech = speaker.synthesize(speaker.plan_speech(sentence), voice=voice, speed=1.0)
        spent += time.perf_counter() - started
        samples = np.concatenate(speech)
        audio += len(samples) / speaker.sample_rate
        heard = soxr.resample(samples, speaker.sample_rate, listener.sample_rate)
        text = listener.transcribe([heard.astype(np.float32)], options)[0].text
        errors, count = word_errors(sentence, text)
        wrong, words = wrong + errors, words + count
        print(f"{errors}/{count}  {text.strip()}")
    print(f"word error rate {wrong / words:.3f}, speech at {audio / spent:.2f} x real time")


if __name__ == "__main__":
    main()
