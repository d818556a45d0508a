from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.kokoro.text.plan import phonemes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello, world!", "həlˈO, wˈɜɹld!"),
        ("the cat", "ðə kˈæt"),
        ("the apple", "ði ˈæpᵊl"),
        ("a cat to read", "ɐ kˈæt tə ɹˈid"),
        ("to us to", "tʊ ʌs tu"),
        ("butter", "bˈʌTəɹ"),
        ("(hello) “world”", "(həlˈO) “wˈɜɹld”"),
        ("hello?! world...", "həlˈO? wˈɜɹld…"),
        ("this cat is this.", "ðɪs kˈæt ˈɪs ðˈɪs."),
        ("used to live", "jˈust tə lˈɪv"),
        ("the use", "ðə jˈus"),
        ("HELLO US WORLD", "həlˈO ˌʌs wˈɜɹld"),
    ],
)
def test_phonemes(g2p, text, said):
    assert phonemes(g2p(text)) == said


def test_straight_and_curly_are_the_same(g2p):
    assert phonemes(g2p("I’m at 5 o’clock")) == phonemes(g2p("I'm at 5 o'clock"))


@given(text=st.text(max_size=80))
def test_nothing_outside_the_vocabulary_comes_out(g2p, text):
    allowed = g2p._vocab
    assert all(set(unit.phonemes) <= allowed and unit.phonemes for unit in g2p(text))
