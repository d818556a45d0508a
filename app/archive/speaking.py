"""A text of any length becomes one WAV file: its parts are jobs, their speech is joined.

A part that is there is not asked for again, so a run that was stopped goes on where it was. Beside
the speech lies a timing file with the stretches of the original text.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import wave
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from app.archive.outputs import writing
from app.archive.server import Server
from app.archive.texts import is_spoken, parts
from app.audio.encode import MAX_DATA_BYTES

CHUNK_FRAMES = 1 << 16


class NotSpoken(Exception):
    """The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """What there is to be said, and where it goes."""

    name: str
    text: str
    target: Path
    """Of the WAV; the timing lies beside it."""

    @property
    def timing(self) -> Path:
        return self.target.with_suffix(".json")

    def mark(self, fields: dict[str, str]) -> str:
        """Of what is said and how: another mark is other speech."""
        key = json.dumps([self.text, fields], sort_keys=True).encode()
        return hashlib.sha256(key).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    seconds: float
    parts: int
    reused: int
    """Parts that were there before."""
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    text: str
    wav: Path
    timing: Path

    @property
    def is_done(self) -> bool:
        return self.wav.exists() and self.timing.exists()


class Speaker:
    def __init__(
        self,
        server: Server,
        fields: dict[str, str],
        *,
        in_flight: int,
        force: bool = False,
    ) -> None:
        self._server = server
        self._fields = {"kind": "speech", **fields}
        self._in_flight, self.force = in_flight, force
        self._model: str | None = None

    def speak(self, speech: Speech) -> Spoken:
        """Raises NotSpoken, Refused or OSError; also Away or Stopped, which leave the parts."""
        work = speech.target.parent / f".{speech.target.stem}.parts"
        work.mkdir(parents=True, exist_ok=True)
        todo = [self._part(work, text) for text in parts(speech.text) if is_spoken(text)]
        if not todo:
            raise NotSpoken("there is nothing in it to be said")
        unique = {part.wav: part for part in todo}
        before = 0 if self.force else sum(part.is_done for part in unique.values())
        self._say_all([part for part in unique.values() if self.force or not part.is_done])
        seconds = _join(todo, speech)
        shutil.rmtree(work)
        return Spoken(seconds=seconds, parts=len(todo), reused=before, model=self._model)

    def _part(self, work: Path, text: str) -> _Part:
        """Named by its content and options, so that another text's part is never taken for it."""
        key = json.dumps([text, self._fields], sort_keys=True).encode()
        stem = work / hashlib.sha256(key).hexdigest()[:24]
        return _Part(text=text, wav=stem.with_suffix(".wav"), timing=stem.with_suffix(".json"))

    def _say_all(self, todo: Sequence[_Part]) -> None:
        over = threading.Event()  # one part has failed, and so the speech
        with ThreadPoolExecutor(self._in_flight, "speech") as pool:
            try:
                for future in as_completed([pool.submit(self._say, part, over) for part in todo]):
                    future.result()
            except BaseException:
                over.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _say(self, part: _Part, over: threading.Event) -> None:
        forced = {"force": "true"} if self.force else {}
        job_id = self._server.submit({**self._fields, **forced, "input": part.text})
        job = self._server.finished(job_id, over)
        if job["status"] != "succeeded":
            raise NotSpoken((job["error"] or {}).get("message", f"the job is {job['status']}"))
        self._model = job["model"]
        with writing(part.timing) as file:
            file.write(json.dumps(self._server.timing(job_id), ensure_ascii=False).encode())
        with writing(part.wav) as file:
            self._server.download(job_id, file)


def _join(todo: Sequence[_Part], speech: Speech) -> float:
    """One file of all parts, in order, block by block; its seconds."""
    with wave.open(str(todo[0].wav), "rb") as first:
        shape = first.getparams()
    frames = [_frames(part.wav) for part in todo]
    if sum(frames) * shape.sampwidth * shape.nchannels > MAX_DATA_BYTES:
        raise NotSpoken("it is more than a WAV file can hold (4 GiB): use --chapters")
    with writing(speech.target) as file, wave.open(cast("Any", file), "wb") as joined:
        joined.setparams(shape._replace(nframes=sum(frames)))
        for part in todo:
            with wave.open(str(part.wav), "rb") as source:
                while data := source.readframes(CHUNK_FRAMES):
                    joined.writeframesraw(data)
    starts = accumulate((count / shape.framerate for count in frames), initial=0.0)
    _write_timing(todo, list(starts), speech)
    return sum(frames) / shape.framerate


def _write_timing(todo: Sequence[_Part], starts: list[float], speech: Speech) -> None:
    spans = [
        {
            "start": round(start + span["start"], 3),
            "end": round(start + span["end"], 3),
            "text": span["text"],
        }
        for part, start in zip(todo, starts, strict=False)
        for span in json.loads(part.timing.read_bytes())
    ]
    body = {"name": speech.name, "duration": round(starts[-1], 3), "spans": spans}
    with writing(speech.timing) as file:
        file.write(json.dumps(body, ensure_ascii=False, indent=1).encode())


def _frames(path: Path) -> int:
    with wave.open(str(path), "rb") as file:
        return file.getnframes()
