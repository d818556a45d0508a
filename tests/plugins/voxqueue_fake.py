"""A deterministic model without weights, joined to the service as any third-party package would be.

A checkpoint is a directory whose config.json says ``{"model_type": "fake"}``; it may also hold
``seconds`` that each call takes. While there is a file ``hold`` beside it, no call comes to an end.
Every window and utterance that the model is given is appended to ``calls.log`` beside it, so that a
test can count what was really done. Commands in a text to speak make it misbehave: ``RAISE``,
``KILL``, ``KILL-ONCE``; so does a window that starts with the level ``POISON`` or ``FAULT``. With
``"streams": true`` it says that its text may be followed while it is made, with ``"batches": true``
that recordings are to be heard together, and calls.log has the size of each call that is larger
than one.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.base import (
    Capability,
    ModelInfo,
    Samples,
    TranscribeOptions,
    Utterance,
)
from models.registry import Family
from models.transcript import Segment, WindowTranscript

POISON = 0.875
"""A recording that starts with this sample value kills its worker."""
FAULT = 0.625
"""A window that starts with this one makes the call fail."""
RATE = 16_000


class FakeProvider:
    sample_rate = RATE
    window_seconds = 30.0

    def __init__(self, path: Path, name: str) -> None:
        config = json.loads((path / "config.json").read_text())
        self._seconds = config.get("seconds", 0.0)
        self._log = path / "calls.log"
        self._once = path / "killed"
        self._hold = path / "hold"
        kinds = config.get("capabilities", ["stt", "tts"])
        self.info = ModelInfo(
            name=name,
            family="fake",
            capabilities=frozenset(Capability(kind) for kind in kinds),
            voices=("af_heart", "am_adam"),
            revision="1",
            batches=config.get("batches", False),
            streams=config.get("streams", False),
        )

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        if self.info.batches and len(windows) > 1:
            self._log_line(f"together {len(windows)}")
        return [self._hear(window, options) for window in windows]

    def _hear(self, window: Samples, options: TranscribeOptions) -> WindowTranscript:
        digest = hashlib.sha256(np.round(window * 32768).astype("<i2").tobytes()).hexdigest()[:12]
        self._called(f"hear {digest}")
        if len(window) and window[0] == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(window) and window[0] == FAULT:
            raise RuntimeError("asked to fail")
        text = f" {options.task}:{digest}" if len(window) else ""
        end = len(window) / RATE
        return WindowTranscript(
            text=text,
            language=options.language or "en",
            segments=(Segment(start=0.0, end=end, text=text),),
        )

    def plan_speech(self, text: str) -> list[Utterance]:
        sentences = [part.strip() for part in text.split(".")]
        return [
            Utterance(text=part, phonemes=part)
            for part in sentences
            if any(char.isalnum() for char in part)
        ]

    def synthesize(
        self, utterances: Sequence[Utterance], *, voice: str | None, speed: float
    ) -> list[Samples]:
        return [self._say(item.text, voice, speed) for item in utterances]

    def _say(self, text: str, voice: str | None, speed: float) -> Samples:
        self._called(f"say {text[:40]}")
        if text == "RAISE":
            raise RuntimeError("asked to fail")
        if text == "KILL" or (text == "KILL-ONCE" and not self._once.exists()):
            self._once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        voice = voice if voice in self.info.voices else "af_heart"
        seed = int.from_bytes(hashlib.sha256(f"{voice} {text}".encode()).digest()[:4], "big")
        frames = int(RATE * 0.05 * len(text) / speed)
        return np.random.default_rng(seed).uniform(-0.5, 0.5, frames).astype(np.float32)

    def _log_line(self, line: str) -> None:
        with self._log.open("a") as file:
            file.write(line + "\n")

    def _called(self, line: str) -> None:
        self._log_line(line)
        time.sleep(self._seconds)
        while self._hold.exists():
            time.sleep(0.01)


def load(path: Path, name: str) -> FakeProvider:
    return FakeProvider(path, name)


FAMILY = Family(
    name="fake",
    provider="voxqueue_fake",
    claims=lambda _path, config: config.get("model_type") == "fake",
)
