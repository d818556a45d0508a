from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.base import CheckpointError
from models.kokoro.text import letters
from models.kokoro.text.lexicon import Context, Lexicon

PLAIN = Context()


@pytest.mark.parametrize(
    ("word", "phonemes"),
    [
        ("hello", "həlˈO"),
        ("Hello", "həlˈO"),
        ("cats", "kˈæts"),
        ("cat's", "kˈæts"),
        ("churches", "ʧˈɜɹʧᵻz"),
        ("carries", "kˈæɹiz"),
        ("walked", "wˈɔkt"),
        ("waited", "wˈAɾᵻd"),
        ("carried", "kˈæɹid"),
        ("stopped", "stˈɑpt"),
        ("stopping", "stˈɑpɪŋ"),
        ("making", "mˈAkɪŋ"),
        ("waiting", "wˈAɾɪŋ"),
        ("January", "ʤˈænjəwˌɛɹi"),
        ("smith", "smˈɪθ"),
        ("well-known", "wˈɛlnˈOn"),
        ("hello-world", "həlˈO wˈɜɹld"),
        ("sunflower", "sˈʌnflˌWəɹ"),
        ("HELLO", "həlˈO"),
        ("o'clock", "əklˈɑk"),
        ("And", "ˌænd"),
    ],
)
def test_known_words_and_their_forms(lexicon, word, phonemes):
    assert lexicon.pronounce(word, PLAIN) == phonemes


def test_acronyms(lexicon):
    assert lexicon.pronounce("US", PLAIN) == "ˌuˈs"
    assert lexicon.pronounce("US", Context(shouting=True)) == "ˌʌs"
    assert lexicon.pronounce("TV", PLAIN) == "ˌtˈv"
    assert lexicon.spell("pdb") == "ˌpˌdˈb"


def test_heteronyms_follow_their_context(lexicon):
    assert lexicon.pronounce("this", Context(pause=True)) == "ðˈɪs"
    assert lexicon.pronounce("use", Context(tag="NOUN")) == "jˈus"
    assert lexicon.pronounce("use", PLAIN) == "jˈuz"


@pytest.mark.parametrize(
    "word", ["zorblatt", "GitHubs", "voxqueue", "xyz", "b", "qq", "Mc'Ng", "IPHONEX"]
)
def test_no_word_is_left_without_phonemes(lexicon, word):
    assert lexicon.pronounce(word, PLAIN).strip("ˈˌ ")


@given(
    st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCXYZ'-", min_size=1, max_size=20).filter(
        lambda w: any(map(str.isalpha, w))
    )
)
def test_any_word_of_letters_is_said(word):
    assert Lexicon({}, {}).pronounce(word.strip("'-"), PLAIN).strip("ˈˌ ")


@pytest.mark.parametrize(
    ("word", "phonemes"),
    [
        ("ride", "ɹˈId"),
        ("shin", "ʃˈɪn"),
        ("phone", "fˈOn"),
        ("knack", "nˈæk"),
        ("cent", "sˈɛnt"),
        ("quit", "kwˈɪt"),
        ("day", "dˈA"),
        ("box", "bˈɑks"),
        ("fly", "flˈI"),
        ("nation", "nˈæʃən"),
        ("zz", "ˈz"),
    ],
)
def test_letter_rules(word, phonemes):
    assert letters.pronounce(word) == phonemes


def test_a_lexicon_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"us_gold\.json"):
        Lexicon.read(tmp_path)


def test_a_lexicon_of_another_kind_is_refused(tmp_path):
    (tmp_path / "us_gold.json").write_text("[]")
    with pytest.raises(CheckpointError, match="JSON object"):
        Lexicon.read(tmp_path)


def test_a_lexicon_is_read(tmp_path):
    for name in ("us_gold", "us_silver"):
        (tmp_path / f"{name}.json").write_text(json.dumps({name: "ə"}))
    assert Lexicon.read(tmp_path).pronounce("us_silver", PLAIN) == "ə"
