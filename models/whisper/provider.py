"""Whisper as a speech provider: windows of samples in, their transcripts out.

Owns the order of things and the guard against pure silence; every step is in the module named for
it. A provider is used on the thread that loaded it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from models.backend import mx, parallel
from models.base import (
    Capability,
    InputRejected,
    ModelInfo,
    OnlyHears,
    Samples,
    TranscribeOptions,
)
from models.transcript import WindowTranscript
from models.whisper import mel
from models.whisper.decoding import decode, detect_languages
from models.whisper.network import Whisper
from models.whisper.tokenizer import FALLBACK_LANGUAGE, Tokenizer
from models.whisper.transcript import transcript
from models.whisper.weights import load as load_network

MAX_BATCH = 8  # windows; more is no faster
SILENCE_DB = -65.0  # of the loudest 30 ms; below it nobody speaks, and Whisper invents text
SILENCE_BLOCK = 480  # samples, 30 ms
HASHED_BYTES = 2**20  # at each end of a weight file


def load(path: Path, name: str) -> WhisperProvider:
    """Load the checkpoint in a directory; CheckpointError says what is wrong with it."""
    network, layout, files = load_network(path)
    dimensions = network.dimensions
    tokenizer = Tokenizer.load(path, multilingual=dimensions.multilingual, size=dimensions.n_vocab)
    info = ModelInfo(
        name=name,
        family="whisper",
        capabilities=frozenset({Capability.STT}),
        multilingual=dimensions.multilingual,
        batches=True,
        revision=revision(path, files),
        details={"layout": layout, **asdict(dimensions)},
    )
    return WhisperProvider(info, network, tokenizer)


def revision(path: Path, files: Iterable[Path]) -> str:
    """A hash of config.json and tokenizer.json, and of each weight file's size and two ends.

    The ends hold the header and the last tensors: hashing gigabytes whole would delay each start.
    """
    digest = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        digest.update((path / name).read_bytes())
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(HASHED_BYTES))
            stream.seek(max(0, size - HASHED_BYTES))
            digest.update(stream.read(HASHED_BYTES))
    return digest.hexdigest()


class WhisperProvider(OnlyHears):
    sample_rate = mel.SAMPLE_RATE
    window_seconds = mel.WINDOW_SECONDS

    def __init__(self, info: ModelInfo, network: Whisper, tokenizer: Tokenizer) -> None:
        self.info = info
        self.network = network
        self.tokenizer = tokenizer

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        checked = [_checked(window, number) for number, window in enumerate(windows)]
        heard = [i for i, window in enumerate(checked) if not is_silent(window)]
        language = options.language.lower() if options.language else None
        found: dict[int, WindowTranscript] = {}
        for start in range(0, len(heard), MAX_BATCH):
            numbers = heard[start : start + MAX_BATCH]
            batch = [checked[number] for number in numbers]
            audio = self._listen(batch)
            languages = [language] * len(batch) if language else self._languages(audio, options)
            language = language or (languages[0] if options.one_language else None)
            transcripts = self._transcribe(batch, audio, languages, options)
            found |= zip(numbers, transcripts, strict=True)
        nothing = WindowTranscript(text="", language=language or FALLBACK_LANGUAGE)
        return [found.get(number, nothing) for number in range(len(checked))]

    def _listen(self, windows: Sequence[Samples]) -> mx.array:
        n_mels = self.network.dimensions.n_mels
        spectra = parallel.each(lambda window: mel.log_mel(window, n_mels), windows)
        return self.network.listen(mx.array(np.stack(spectra)))

    def _languages(self, audio: mx.array, options: TranscribeOptions) -> list[str]:
        asked = audio[:1] if options.one_language else audio
        found = detect_languages(self.network.decoder, asked, self.tokenizer)
        return found * len(audio) if options.one_language else found

    def _transcribe(
        self,
        windows: Sequence[Samples],
        audio: mx.array,
        languages: Sequence[str],
        options: TranscribeOptions,
    ) -> list[WindowTranscript]:
        decoded = decode(
            self.network.decoder, audio, self.tokenizer, languages=languages, options=options
        )
        return [
            transcript(
                result, self.tokenizer, language=language, seconds=len(window) / mel.SAMPLE_RATE
            )
            for result, window, language in zip(decoded, windows, languages, strict=True)
        ]


def is_silent(window: Samples) -> bool:
    """Whether not even the loudest 30 ms reach the level of the faintest speech."""
    if not len(window):
        return True
    blocks = np.add.reduceat(np.square(window), range(0, len(window), SILENCE_BLOCK))
    return bool(blocks.max() / SILENCE_BLOCK < 10 ** (SILENCE_DB / 10))


def _checked(window: Samples, number: int) -> Samples:
    if window.ndim != 1 or len(window) > mel.WINDOW_SAMPLES:
        raise InputRejected(
            f"window {number} has shape {window.shape}: at most {mel.WINDOW_SAMPLES} mono samples"
        )
    if not np.isfinite(window).all():
        raise InputRejected(f"window {number} holds samples that are not numbers")
    return np.asarray(window, np.float32)
