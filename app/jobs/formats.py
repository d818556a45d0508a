"""One stored transcript in every format that is served: JSON shapes, plain text, subtitles, events.

Pure rendering: the same transcript always gives the same text. Subtitles are valid whatever the
model's times were. Knows no request and no response class.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.jobs.languages import language_name
from models.transcript import Segment, Transcript


class Format(StrEnum):
    JSON = "json"
    TEXT = "text"
    VERBOSE_JSON = "verbose_json"
    SRT = "srt"
    VTT = "vtt"
    TSV = "tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    body: str
    media_type: str


DONE = "data: [DONE]\n\n"
"""The last frame of a stream."""


def render(transcript: Transcript, format_: Format) -> Rendered:
    """OpenAI's shapes, and tsv; what `/openai/v1` and a job's `?format=` answer."""
    write, media_type = _RENDERERS[format_]
    return Rendered(body=write(transcript), media_type=media_type)


def render_translation(transcript: Transcript, format_: Format) -> Rendered:
    """The seed dialect's three shapes of a translation."""
    if format_ is Format.TEXT:
        return render(transcript, format_)
    body: dict[str, Any] = {"text": transcript.text}
    if format_ is Format.VERBOSE_JSON:
        body |= {"language": transcript.language} if transcript.language else {}
        body |= {"duration": _seconds(transcript.duration)}
    return Rendered(body=_dump(body), media_type="application/json")


def render_transcription(transcript: Transcript) -> Rendered:
    """The seed dialect's one shape of a transcription."""
    return Rendered(body=_dump(_done(transcript)), media_type="application/json")


def delta_event(text: str) -> str:
    return _event({"type": "transcript.text.delta", "delta": text})


def done_event(transcript: Transcript) -> str:
    return _event(_done(transcript))


def error_event(error: dict[str, Any]) -> str:
    return _event({"error": error})


def transcription_events(transcript: Transcript, *, even_empty: bool = True) -> Iterator[str]:
    """The whole stream of a finished transcript: one delta, ``even_empty`` or only with text."""
    if transcript.text or even_empty:
        yield delta_event(transcript.text)
    yield done_event(transcript)
    yield DONE


def openai_json(transcript: Transcript) -> dict[str, Any]:
    return {"text": transcript.text, "usage": _duration_usage(transcript)}


def openai_verbose(
    transcript: Transcript, *, segments: bool = True, temperature: float = 0.0
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "task": transcript.task,
        # A translation is English, whatever was spoken.
        "language": language_name("en" if transcript.task == "translate" else transcript.language),
        "duration": _seconds(transcript.duration),
        "text": transcript.text,
    }
    if segments:
        body["segments"] = [
            _segment(number, segment, temperature)
            for number, segment in enumerate(transcript.segments)
        ]
    return body | {"usage": _duration_usage(transcript)}


def srt(transcript: Transcript) -> str:
    return "".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(_cues(transcript), 1)
    )


def vtt(transcript: Transcript) -> str:
    cues = "".join(
        f"\n{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_escape(cue.text)}\n"
        for cue in _cues(transcript)
    )
    return f"WEBVTT\n{cues}"


def tsv(transcript: Transcript) -> str:
    rows = "".join(f"{cue.start}\t{cue.end}\t{cue.text}\n" for cue in _cues(transcript))
    return f"start\tend\ttext\n{rows}"


_RENDERERS: dict[Format, tuple[Callable[[Transcript], str], str]] = {
    Format.JSON: (lambda transcript: _dump(openai_json(transcript)), "application/json"),
    Format.TEXT: (lambda transcript: transcript.text, "text/plain; charset=utf-8"),
    Format.VERBOSE_JSON: (lambda transcript: _dump(openai_verbose(transcript)), "application/json"),
    Format.SRT: (srt, "application/x-subrip; charset=utf-8"),
    Format.VTT: (vtt, "text/vtt; charset=utf-8"),
    Format.TSV: (tsv, "text/tab-separated-values; charset=utf-8"),
}


_ARROW = re.compile("-{2,}>")  # would be read as the arrow between times


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cue:
    start: int
    """Milliseconds."""
    end: int
    text: str


def _cues(transcript: Transcript) -> Iterator[_Cue]:
    """One line of text each, in order, none overlapping, each at least a millisecond long."""
    reached = 0
    for segment in transcript.segments or _whole(transcript):
        # A line break or a blank line would end the cue, a tab the column.
        text = _ARROW.sub("->", " ".join(segment.text.split()))
        if not text:
            continue
        start = max(reached, round(segment.start * 1000))
        reached = max(start + 1, round(segment.end * 1000))
        yield _Cue(start=start, end=reached, text=text)


def _whole(transcript: Transcript) -> tuple[Segment, ...]:
    return (Segment(start=0.0, end=transcript.duration, text=transcript.text),)


def _clock(milliseconds: int, point: str) -> str:
    seconds, fraction = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}{point}{fraction:03d}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _segment(number: int, segment: Segment, temperature: float) -> dict[str, Any]:
    return {
        "id": number,
        "seek": int(segment.start * 100),  # in feature frames of 10 ms
        "start": _seconds(segment.start),
        "end": _seconds(segment.end),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }


def _done(transcript: Transcript) -> dict[str, Any]:
    usage = transcript.usage
    return {
        "type": "transcript.text.done",
        "text": transcript.text,
        "usage": {
            "type": "tokens",
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
    }


def _duration_usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(transcript.duration)}


def _seconds(value: float) -> float:
    return round(value, 3)


def _event(data: dict[str, Any]) -> str:
    return f"data: {_dump(data)}\n\n"


def _dump(value: dict[str, Any]) -> str:
    # NaN is no JSON; better a failed request than an answer that no client can parse.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
