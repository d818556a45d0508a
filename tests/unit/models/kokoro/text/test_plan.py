"""Long text is cut where it hurts least, and never loses a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.kokoro.text.plan import COMFORT, LIMIT, plan

WORDS = st.sampled_from(
    [
        "hello",
        "world",
        "cat",
        "zorblatt",
        "$5.3",
        "9:30",
        "Dr.",
        "a@b.com",
        "U.S.",
        "1st",
        "well-known",
        "123456789012345",
        "中文",
        "x" * 70,
    ]
)
ENDINGS = st.sampled_from(["", "", "", ",", ".", "!", "?", ";", " —", "...", "\n\n", "”", "😀"])


def cut(g2p, text):
    return plan(text, g2p(text))


def squeezed(text: str) -> str:
    return "".join(text.split())


@given(st.lists(st.tuples(WORDS, ENDINGS), max_size=120))
def test_no_word_is_lost_and_every_utterance_fits(g2p, words):
    text = " ".join(word + ending for word, ending in words)
    pieces = cut(g2p, text)
    assert all(0 < len(piece.phonemes) <= LIMIT for piece in pieces)
    said = " ".join(piece.phonemes for piece in pieces).split()
    assert [w.strip(";:,.!?—…()“”") for w in said if w.strip(";:,.!?—…()“”")] == [
        w for unit in g2p(text) if unit.is_word and pieces for w in unit.phonemes.split()
    ]
    if pieces:
        assert squeezed("".join(piece.text for piece in pieces)) == squeezed(text)


@given(st.text(max_size=300))
def test_any_text_is_kept_whole(g2p, text):
    pieces = cut(g2p, text)
    assert all(len(piece.phonemes) <= LIMIT for piece in pieces)
    if pieces:
        assert squeezed("".join(piece.text for piece in pieces)) == squeezed(text)


def test_sentences_share_an_utterance_up_to_comfort(g2p):
    pieces = cut(g2p, "Hello world. " * 60)
    assert 1 < len(pieces) < 10
    assert all(piece.text.endswith(".") and len(piece.phonemes) <= COMFORT for piece in pieces)


def test_a_long_sentence_is_cut_between_clauses(g2p):
    pieces = cut(g2p, "Hello world and the cat, " * 30 + "hello.")
    assert len(pieces) > 1
    assert all(piece.text.endswith((",", ".")) for piece in pieces)


@pytest.mark.parametrize(
    "flood", ["hello " * 300, "x" * 3000, "7" * 3000, "www." + "ab/" * 900, "HELLO" * 400]
)
def test_what_has_no_boundary_is_cut_between_words(g2p, flood):
    pieces = cut(g2p, flood)
    assert len(pieces) > 1
    assert squeezed("".join(piece.text for piece in pieces)) == squeezed(flood)


@pytest.mark.parametrize(
    "text", ["", "   ", "...", "😀😀", "?!", "\x00", "中文", "[](http://example.com)"]
)
def test_nothing_pronounceable_gives_nothing(g2p, text):
    assert cut(g2p, text) == []
