"""Special ids by content; languages; what is never generated."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Vocabulary

from models.base import CheckpointError
from models.whisper.tokenizer import Tokenizer

# openai-whisper's non-speech set for the multilingual vocabulary
NON_SPEECH = (
    "1 2 7 8 9 10 14 25 26 27 28 29 31 58 59 60 61 62 63 90 91 92 93 359 503 522 542 873 893 902 918 922 931 1350 "
    "1853 1982 2460 2627 3246 3253 3268 3536 3846 3961 4183 4667 6585 6647 7273 9061 9383 10428 10929 11938 12033 "
    "12331 12562 13793 14157 14635 15265 15618 16553 16604 18362 18956 20075 21675 22520 26130 26161 26435 28279 "
    "29464 31650 32302 32470 36865 42863 47425 49870 50254"
)


@pytest.fixture
def small(build, tmp_path):
    """256 letters, then the controls, three languages and the tasks."""
    build.tokenizer(tmp_path)
    return Tokenizer.load(tmp_path, multilingual=True, size=build.multilingual)


def test_special_ids_are_found_by_content(small):
    assert (small.end, small.start) == (256, 257)
    assert small.languages == {"en": 258, "fr": 259, "yue": 260}
    assert small.no_speech == 265
    assert (small.no_timestamps, small.first_timestamp) == (266, 267)


@pytest.mark.parametrize(
    ("language", "task", "timestamps", "expected"),
    [
        ("fr", "transcribe", False, [257, 259, 262, 266]),
        ("fr", "translate", True, [257, 259, 261]),
        ("english", "transcribe", False, [257, 258, 262, 266]),
    ],
)
def test_prompt(small, language, task, timestamps, expected):
    assert small.prompt(language, task, timestamps=timestamps) == expected


def test_an_english_only_prompt_has_no_language_and_no_task(build, tmp_path):
    build.tokenizer(tmp_path)
    tokenizer = Tokenizer.load(tmp_path, multilingual=False, size=build.english)
    assert tokenizer.prompt("fr", "translate", timestamps=False) == [257, 266]
    assert tokenizer.languages == {}


def test_translate_falls_back_where_the_vocabulary_lacks_it(build, tmp_path):
    build.tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace("<|translate|>", "<|reserved|>"))
    tokenizer = Tokenizer.load(tmp_path, multilingual=True, size=build.multilingual)
    assert tokenizer.prompt("en", "translate", timestamps=True) == [257, 258, 262]


def test_text_survives_and_specials_are_skipped(small):
    ids = small.encode(" déjà ♪ 你")
    assert small.decode([257, 258, *ids, 256, 300]) == " déjà ♪ 你"


def test_controls_are_suppressed(small):
    assert {257, 261, 262, 263, 264, 265} <= set(small.suppressed)
    assert small.suppressed_first == [*small.encode(" "), 256]


@pytest.mark.parametrize("name", ["<|endoftext|>", "<|notimestamps|>"])
def test_a_missing_special_token_is_named(build, tmp_path, name):
    build.tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace(name, "<|other|>"))
    with pytest.raises(CheckpointError, match=name.replace("|", r"\|")):
        Tokenizer.load(tmp_path, multilingual=True, size=build.multilingual)


def test_no_tokenizer_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        Tokenizer.load(tmp_path, multilingual=True, size=51_865)


def test_a_broken_tokenizer_is_an_error(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path, multilingual=True, size=51_865)


@pytest.mark.weights
def test_the_published_vocabulary(checkpoint, build):
    tokenizer = Tokenizer.load(checkpoint("whisper-base"), multilingual=True, size=51_865)
    assert len(tokenizer.languages) == 99
    assert tokenizer.prompt("de", "transcribe", timestamps=False) == [50258, 50261, 50359, 50363]
    expected = {int(word) for word in NON_SPEECH.split()} | set(range(50358, 50363)) | {50258}
    assert set(tokenizer.suppressed) == expected
    assert tokenizer.suppressed_first == [220, 50257]
    assert tokenizer.first_timestamp == 50364


@pytest.mark.weights
def test_timestamps_within_the_vocabulary_are_found(checkpoint, tmp_path):
    """large-v3 lists them, and has a hundredth language before them."""
    vocabulary = Vocabulary.from_file(str(checkpoint("whisper-base") / "tokenizer.json"))
    vocabulary.add_special_tokens(["<|yue|>", "<|0.00|>"])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path, multilingual=True, size=51_866)
    assert len(tokenizer.languages) == 100
    assert tokenizer.first_timestamp == 50365
