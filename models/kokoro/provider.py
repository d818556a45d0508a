"""Kokoro as a SpeechProvider: text planned into utterances, utterances said in a chosen voice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from models.backend import mx
from models.backend.parallel import each
from models.base import (
    Capability,
    InputRejected,
    ModelInfo,
    NotSupported,
    Samples,
    TranscribeOptions,
    Utterance,
)
from models.kokoro.config import KokoroConfig
from models.kokoro.network import Kokoro
from models.kokoro.text.g2p import G2p
from models.kokoro.text.lexicon import Lexicon
from models.kokoro.text.plan import LIMIT, plan
from models.kokoro.vocoder import SAMPLE_RATE
from models.kokoro.voices import Voices
from models.kokoro.weights import Weights
from models.transcript import WindowTranscript

WEIGHTS = "kokoro-v1_0.safetensors"
LEXICON = "lexicon"
"""Folder beside the weights, with us_gold.json and us_silver.json."""
READ_AT_ONCE = 2**20  # bytes


class KokoroProvider:
    sample_rate = SAMPLE_RATE
    window_seconds = 0.0

    def __init__(
        self, info: ModelInfo, network: Kokoro, voices: Voices, g2p: G2p, vocab: dict[str, int]
    ) -> None:
        self.info = info
        self._network, self._voices, self._g2p, self._vocab = network, voices, g2p, vocab

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        del windows, options
        raise NotSupported(f"{self.info.name} speaks, it does not transcribe")

    def plan_speech(self, text: str) -> list[Utterance]:
        return plan(text, self._g2p(text))

    def synthesize(
        self, utterances: Sequence[Utterance], *, voice: str | None, speed: float
    ) -> list[Samples]:
        chosen = self._voices.choose(voice)
        return each(lambda utterance: self._say(utterance, chosen, speed), utterances)

    def _say(self, utterance: Utterance, voice: str, speed: float) -> Samples:
        ids = [self._vocab[c] for c in utterance.phonemes if c in self._vocab]
        if not ids:
            raise InputRejected("no phonemes for the input text")
        if len(ids) > LIMIT:
            raise InputRejected(f"an utterance has {len(ids)} phonemes, at most {LIMIT} fit")
        return self._network(ids, self._voices.style(voice, len(ids)), speed)


def load(path: Path, name: str) -> KokoroProvider:
    """Raises CheckpointError, naming the file or the tensors at fault."""
    config = KokoroConfig.read(path / "config.json")
    weights = Weights.read(path / WEIGHTS)
    network = Kokoro(weights, config)
    weights.finish()
    network([1], mx.zeros((1, 2 * config.style)), 1.0)  # evaluates the weights: threads share them
    voices = Voices(path / "voices", style=config.style)
    info = ModelInfo(
        name=name,
        family="kokoro",
        capabilities=frozenset({Capability.TTS}),
        multilingual=False,
        voices=voices.names,
        revision=_revision(path / WEIGHTS),
        details={"sample_rate": SAMPLE_RATE},
    )
    g2p = G2p(Lexicon.read(path / LEXICON), config.vocab)
    return KokoroProvider(info, network, voices, g2p, dict(config.vocab))


def _revision(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(READ_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()[:12]
