"""Transcripts to JSON and back, and the token counts of chat models on their way."""

from __future__ import annotations

from app.audio.windows import stitch
from models.transcript import Segment, Transcript, Usage, WindowTranscript

COUNTED = Usage(input_tokens=200, output_tokens=5, cached_tokens=1)


def test_a_window_survives_json():
    window = WindowTranscript(
        text=" hi",
        language="en",
        segments=(Segment(start=0.0, end=1.0, text=" hi", tokens=(1, 2)),),
        usage=COUNTED,
    )
    assert WindowTranscript.from_json(window.to_json()) == window


def test_a_transcript_survives_json():
    whole = Transcript(text="hi", language="en", duration=1.0, usage=COUNTED)
    assert Transcript.from_json(whole.to_json()) == whole


def test_json_written_before_tokens_were_counted_is_still_read():
    window = WindowTranscript(text="", language="en").to_json()
    whole = Transcript(text="", language="en", duration=0.0).to_json()
    del window["usage"], whole["usage"]
    assert WindowTranscript.from_json(window).usage == Usage()
    assert Transcript.from_json(whole).usage == Usage()


def test_windows_add_their_tokens_up():
    window = WindowTranscript(text="a", language="en", usage=COUNTED)
    joined = stitch([(0.0, window), (30.0, window)], duration=60.0)
    assert joined.usage == Usage(input_tokens=400, output_tokens=10, cached_tokens=2)
