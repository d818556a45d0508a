"""Segments from tokens, and the guards against silence and loops."""

from __future__ import annotations

import pytest

from models.whisper.decoding import Decoded
from models.whisper.tokenizer import Tokenizer
from models.whisper.transcript import spans, transcript, without_loop


@pytest.fixture
def tokenizer(build, tmp_path):
    build.tokenizer(tmp_path)
    return Tokenizer.load(tmp_path, multilingual=True, size=build.multilingual)


def make(tokenizer, tokens, seconds=10.0, **decoded):
    return transcript(Decoded(tokens, **decoded), tokenizer, language="en", seconds=seconds)


def test_without_timestamps_a_window_is_one_segment(tokenizer):
    tokens = tokenizer.encode(" hello there")
    found = make(tokenizer, tokens, sum_logprob=-6.5, no_speech_prob=0.25)
    (segment,) = found.segments
    assert (found.text, found.language) == (" hello there", "en")
    assert (segment.start, segment.end, segment.text) == (0.0, 10.0, " hello there")
    assert segment.tokens == tuple(tokens)
    assert segment.avg_logprob == pytest.approx(-6.5 / 13)
    assert segment.no_speech_prob == 0.25
    assert segment.compression_ratio == pytest.approx(12 / 20)


def test_timestamps_make_segments(tokenizer):
    zero = tokenizer.first_timestamp
    one, two = tokenizer.encode(" one"), tokenizer.encode(" two")
    found = make(tokenizer, [zero, *one, zero + 100, zero + 125, *two, zero + 1500], seconds=12.0)
    assert found.text == " one two"
    assert [(s.start, s.end, s.text) for s in found.segments] == [
        (0.0, 2.0, " one"),
        (2.5, 12.0, " two"),
    ]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], []),
        ([100, 200], []),
        ([100, 1], [(0.0, 5.0, [1])]),
        ([150, 1, 200, 200, 2], [(1.0, 2.0, [1]), (2.0, 5.0, [2])]),
        ([100, 1, 150, 2], [(0.0, 1.0, [1]), (1.0, 5.0, [2])]),
    ],
)
def test_spans(tokens, expected):
    assert list(spans(tokens, 100, 5.0)) == expected


def test_a_silent_window_has_no_text(tokenizer):
    tokens = tokenizer.encode(" Thank you.")
    unsure = make(tokenizer, tokens, sum_logprob=-30.0, no_speech_prob=0.7)
    assert (unsure.text, unsure.segments) == ("", ())
    assert make(tokenizer, tokens, sum_logprob=-3.0, no_speech_prob=0.7).text == " Thank you."
    assert make(tokenizer, tokens, sum_logprob=-30.0, no_speech_prob=0.5).text == " Thank you."


def test_a_loop_is_cut_to_one_occurrence(tokenizer):
    tokens = tokenizer.encode(" A fine day." + " and so on" * 30 + " and")
    assert make(tokenizer, tokens).text == " A fine day. and so on"


def test_a_loop_is_cut_with_the_timestamps_in_it(tokenizer):
    zero = tokenizer.first_timestamp
    tokens = [zero, *tokenizer.encode(" well then")]
    for i in range(40):
        tokens += [zero + i + 1, zero + i + 1, *tokenizer.encode(" you and me")]
    assert tokenizer.decode(without_loop(tokens, tokenizer)) == " well then you and me"


def test_repetition_that_does_not_end_the_text_is_kept(tokenizer):
    text = " no" * 40 + " and that was it"
    assert make(tokenizer, tokenizer.encode(text)).text == text


def test_text_that_repeats_little_is_kept(tokenizer):
    text = " very very very good"
    assert make(tokenizer, tokenizer.encode(text)).text == text
