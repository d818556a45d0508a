from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.audio import TranscriptionVerbose

from app.jobs.formats import (
    DONE,
    Format,
    delta_event,
    done_event,
    error_event,
    openai_verbose,
    render,
    render_transcription,
    render_translation,
    transcription_events,
)
from models.transcript import Segment, Transcript, Usage

SPOKEN = Transcript(
    text="Où es-tu? Here & now.",
    language="fr",
    duration=4.0015,
    segments=(
        Segment(start=0.0, end=1.5, text=" Où es-tu?", tokens=(1, 2), avg_logprob=-0.25),
        Segment(start=1.5, end=3.999, text=" Here\n& <now>.", no_speech_prob=0.5),
    ),
)
EMPTY = Transcript(text="", language="en", duration=12.0)
LONG = Transcript(
    text="late",
    language="en",
    duration=360_000.0,
    segments=(Segment(start=35_999.9996, end=360_000, text="late"),),
)


def body(transcript: Transcript, format_: Format) -> str:
    return render(transcript, format_).body


def test_seed_transcription_has_the_documented_bytes():
    usage = Usage(input_tokens=206, output_tokens=10)
    out = render_transcription(replace(EMPTY, text="The lazy dog.", usage=usage))
    assert out.media_type == "application/json"
    assert out.body == (
        '{"type":"transcript.text.done","text":"The lazy dog.","usage":{"type":"tokens",'
        '"input_tokens":206,"output_tokens":10,"total_tokens":216,'
        '"input_tokens_details":{"cached_tokens":0}}}'
    )


def test_seed_transcription_by_whisper_counts_nothing():
    usage = json.loads(render_transcription(SPOKEN).body)["usage"]
    assert usage == {
        "type": "tokens",
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
    }


def test_seed_stream_is_one_delta_the_done_object_and_done():
    frames = list(transcription_events(SPOKEN))
    assert frames == [
        'data: {"type":"transcript.text.delta","delta":"Où es-tu? Here & now."}\n\n',
        f"data: {render_transcription(SPOKEN).body}\n\n",
        "data: [DONE]\n\n",
    ]


def test_seed_stream_sends_an_empty_delta_too():
    assert next(transcription_events(EMPTY)) == (
        'data: {"type":"transcript.text.delta","delta":""}\n\n'
    )


def test_each_event_is_one_data_line():
    events = [
        delta_event("two\nlines\r\n"),
        done_event(SPOKEN),
        error_event({"message": "x"}),
        DONE,
    ]
    for event in events:
        assert re.fullmatch(r"data: [^\r\n]+\n\n", event)
    assert events[2] == 'data: {"error":{"message":"x"}}\n\n'


def test_seed_translation_json_and_text():
    assert render_translation(SPOKEN, Format.JSON).body == '{"text":"Où es-tu? Here & now."}'
    text = render_translation(SPOKEN, Format.TEXT)
    assert (text.body, text.media_type) == (SPOKEN.text, "text/plain; charset=utf-8")


def test_seed_translation_verbose_json_omits_what_is_absent():
    out = render_translation(replace(SPOKEN, duration=1.5), Format.VERBOSE_JSON)
    assert json.loads(out.body) == {"text": SPOKEN.text, "language": "fr", "duration": 1.5}
    out = render_translation(replace(EMPTY, language=""), Format.VERBOSE_JSON)
    assert json.loads(out.body) == {"text": "", "duration": 12.0}


def test_openai_json():
    assert json.loads(body(SPOKEN, Format.JSON)) == {
        "text": SPOKEN.text,
        "usage": {"type": "duration", "seconds": 5},
    }


def test_openai_verbose_json_is_what_the_sdk_reads():
    data = body(SPOKEN, Format.VERBOSE_JSON)
    parsed = TranscriptionVerbose.model_validate_json(data, strict=True)
    assert parsed.language == "french"
    assert parsed.duration == 4.002
    assert parsed.usage.type == "duration"
    assert [segment.id for segment in parsed.segments] == [0, 1]
    assert parsed.segments[1].seek == 150
    raw = json.loads(data)
    assert list(raw) == ["task", "language", "duration", "text", "segments", "usage"]
    assert set(raw["segments"][0]) == {
        *("id", "seek", "start", "end", "text", "tokens", "temperature"),
        *("avg_logprob", "compression_ratio", "no_speech_prob"),
    }


def test_openai_verbose_json_without_segments_and_of_a_translation():
    assert "segments" not in openai_verbose(SPOKEN, segments=False)
    assert openai_verbose(replace(SPOKEN, task="translate"))["language"] == "english"
    assert openai_verbose(replace(SPOKEN, language="xx"))["language"] == "xx"
    assert openai_verbose(SPOKEN, temperature=0.4)["segments"][0]["temperature"] == 0.4


def test_srt():
    assert body(SPOKEN, Format.SRT) == (
        "1\n00:00:00,000 --> 00:00:01,500\nOù es-tu?\n\n"
        "2\n00:00:01,500 --> 00:00:03,999\nHere & <now>.\n\n"
    )


def test_vtt():
    assert body(SPOKEN, Format.VTT) == (
        "WEBVTT\n"
        "\n00:00:00.000 --> 00:00:01.500\nOù es-tu?\n"
        "\n00:00:01.500 --> 00:00:03.999\nHere &amp; &lt;now&gt;.\n"
    )


def test_tsv():
    assert body(SPOKEN, Format.TSV) == (
        "start\tend\ttext\n0\t1500\tOù es-tu?\n1500\t3999\tHere & <now>.\n"
    )


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        (Format.TEXT, ""),
        (Format.SRT, ""),
        (Format.VTT, "WEBVTT\n"),
        (Format.TSV, "start\tend\ttext\n"),
    ],
)
def test_an_empty_transcript(format_, expected):
    assert body(EMPTY, format_) == expected
    blank = replace(EMPTY, segments=(Segment(start=0, end=1, text="  "),))
    assert body(blank, format_) == expected


def test_hours_and_carried_milliseconds():
    assert body(LONG, Format.SRT).splitlines()[1] == "10:00:00,000 --> 100:00:00,000"
    assert body(LONG, Format.VTT).splitlines()[2] == "10:00:00.000 --> 100:00:00.000"


def test_text_without_segments_is_one_cue():
    assert body(replace(SPOKEN, segments=()), Format.TSV).splitlines()[1].startswith("0\t4002\tOù")


@pytest.mark.parametrize("arrow", ["-->", "--->", "- -->", "----->>"])
def test_an_arrow_in_the_text_cannot_end_a_cue(arrow):
    spoken = replace(EMPTY, segments=(Segment(start=0, end=1, text=f"a {arrow} b"),))
    for format_ in (Format.SRT, Format.VTT):
        assert body(spoken, format_).count("-->") == 1


@pytest.mark.parametrize(
    ("format_", "media_type"),
    [
        (Format.JSON, "application/json"),
        (Format.VERBOSE_JSON, "application/json"),
        (Format.TEXT, "text/plain; charset=utf-8"),
        (Format.SRT, "application/x-subrip; charset=utf-8"),
        (Format.VTT, "text/vtt; charset=utf-8"),
        (Format.TSV, "text/tab-separated-values; charset=utf-8"),
    ],
)
def test_media_types(format_, media_type):
    assert render(SPOKEN, format_).media_type == media_type


def test_a_number_that_json_cannot_hold_is_an_error():
    broken = replace(
        SPOKEN, segments=(Segment(start=0, end=1, text="x", avg_logprob=float("nan")),)
    )
    with pytest.raises(ValueError, match="JSON"):
        body(broken, Format.VERBOSE_JSON)


transcripts = st.lists(
    st.builds(
        Segment,
        start=st.floats(-10, 1e6),
        end=st.floats(-10, 1e6),
        text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    ),
    max_size=8,
).map(lambda segments: replace(EMPTY, text="x", segments=tuple(segments)))
CUE = re.compile(
    r"(\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3})"
)


def milliseconds(parts: tuple[str, ...]) -> int:
    hours, minutes, seconds, fraction = map(int, parts)
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction


@settings(deadline=None, derandomize=True)
@given(transcripts)
def test_subtitles_are_valid_whatever_the_segments(transcript):
    srt, vtt = body(transcript, Format.SRT), body(transcript, Format.VTT)
    cues = CUE.findall(vtt)
    times = [milliseconds(cue[half : half + 4]) for cue in cues for half in (0, 4)]
    assert times == sorted(times)
    assert all(start < end for start, end in zip(times[::2], times[1::2], strict=True))
    assert vtt.count("WEBVTT") == 1 + sum("WEBVTT" in s.text for s in transcript.segments)
    assert [len(block.split("\n")) for block in srt.split("\n\n")[:-1]] == [3] * len(cues)
    assert [block.split("\n")[0] for block in srt.split("\n\n")[:-1]] == [
        str(number) for number in range(1, len(cues) + 1)
    ]
    assert [len(block.split("\n")) for block in vtt.rstrip("\n").split("\n\n")[1:]] == [2] * len(
        cues
    )
    rows = body(transcript, Format.TSV).split("\n")
    assert rows[-1] == ""
    assert all(len(row.split("\t")) == 3 for row in rows[:-1])
    assert len(rows) == len(cues) + 2


def test_tsv_is_read_by_csv():
    rows = list(csv.DictReader(io.StringIO(body(SPOKEN, Format.TSV)), delimiter="\t"))
    assert [row["text"] for row in rows] == ["Où es-tu?", "Here & <now>."]
