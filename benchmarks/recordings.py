"""What is transcribed, with what is said in it: real speech where there is some, else Kokoro's."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from benchmarks import systems
from benchmarks.round_trip import SENTENCES
from benchmarks.runner import ROOT, WORK, Message

FOLDER = Path(os.environ.get("VOXQUEUE_TEST_AUDIO", ROOT.parent / "shared" / "audio"))
REFUSED = {".aiff"}  # a container that is not served
REPEATS = 5  # of six clips, 35.7 s together
CLIP = "jfk.flac"
CLIP_SENTENCES = 3  # of the spoken ones, 11 s together
VOICES = ("af_heart", "af_bella", "am_michael", "am_puck", "bf_emma", "bm_george")


@dataclass(frozen=True, slots=True)
class Recording:
    path: Path
    text: str

    @property
    def request(self) -> Message:
        return {"file": str(self.path), "audio_seconds": soundfile.info(self.path).duration}


def clip() -> Recording:
    """About 11 s."""
    if found := [real for real in references() if real.path.name == CLIP]:
        return found[0]
    return _joined(WORK / "clip.wav", spoken(VOICES[:1])[:CLIP_SENTENCES])


def recording() -> Recording:
    """About 3 minutes."""
    real = [r for r in references() if r.path.name.startswith(("jfk.wav", "librivox_"))]
    parts = real or spoken(VOICES[:1])
    return _joined(WORK / "recording.wav", parts * REPEATS)


def references(folder: Path = FOLDER) -> list[Recording]:
    """The recordings that references.tsv in the folder tells the text of; none without it."""
    table = folder / "references.tsv"
    return list(_rows(table)) if table.is_file() else []


def spoken(voices: Sequence[str] = VOICES) -> list[Recording]:
    """Ten sentences, said once by each voice."""
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = {
        WORK / f"{voice}-{number}.wav": (voice, sentence)
        for voice in voices
        for number, sentence in enumerate(SENTENCES)
    }
    missing = {path: said for path, said in wanted.items() if not path.exists()}
    if missing:
        with systems.own("kokoro-82m").start() as kokoro:
            for path, (voice, sentence) in missing.items():
                kokoro.ask({"text": sentence, "voice": voice, "save": str(path)})
    return [Recording(path, sentence) for path, (_, sentence) in wanted.items()]


def _rows(table: Path) -> Iterator[Recording]:
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            path = table.parent / row["file"]
            if path.suffix not in REFUSED:
                yield Recording(path, row["text"])


def _joined(target: Path, parts: Sequence[Recording]) -> Recording:
    target.parent.mkdir(parents=True, exist_ok=True)
    samples, rates = zip(*(soundfile.read(part.path) for part in parts), strict=True)
    soundfile.write(target, np.concatenate(samples), rates[0])
    return Recording(target, " ".join(part.text for part in parts))
