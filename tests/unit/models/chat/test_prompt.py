"""The request for a transcript as token ids, whatever the network."""

from __future__ import annotations

import json

import pytest

from models.base import CheckpointError, InputRejected
from models.chat_answer import visible
from models.chat_prompt import ChatPrompt
from models.preprocess.placeholders import Medium, Placeholder

pytest.importorskip("jinja2", reason="needs the extra: pip install 'voxqueue[chat]'")

CLIP = Placeholder(medium=Medium.AUDIO, ordinal=1)
HEAD, TAIL = "<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n"


@pytest.fixture
def folder(tmp_path, tokenizer_files):
    tokenizer_files(tmp_path)
    (tmp_path / "config.json").write_text('{"eos_token_id": [1, 4]}')
    return tmp_path


@pytest.mark.parametrize(
    ("prompt", "language", "words"),
    [
        (None, None, "Transcribe audio to text"),
        (None, "de", "Transcribe audio to text (language: de)"),
        ("Write it down", None, "Write it down"),
        ("Write it down", "fr", "Write it down (language: fr)"),
        ("", "", "Transcribe audio to text"),
    ],
)
def test_prompt_and_language_suffix(folder, prompt, language, words):
    pieces = ChatPrompt(folder).pieces(prompt, language)
    assert pieces == [HEAD + words, CLIP, TAIL]


def test_a_prompt_cannot_smuggle_a_sentinel_in(folder):
    with pytest.raises(Exception, match="reserved ordered-media sentinel"):
        ChatPrompt(folder).pieces("<|mlxcel_ordered_audio_1|>", None)


def test_special_tokens_are_read_in_text(folder):
    assert ChatPrompt(folder).encode("<bos>a\n")[0] == 2


@pytest.mark.parametrize("mark", ["<boa>", "<end_of_turn>", "<bos>"])
@pytest.mark.parametrize("where", ["prompt", "language"])
def test_6_the_models_own_marks_are_refused_in_words(folder, mark, where):
    words = {"prompt": None, "language": None, where: f"before{mark}after"}
    with pytest.raises(InputRejected) as caught:
        ChatPrompt(folder).pieces(**words)
    assert str(caught.value) == f"message text contains the model's own mark {mark}"


def test_half_characters_are_refused_in_words(folder):
    with pytest.raises(InputRejected, match="message text contains half a character"):
        ChatPrompt(folder).pieces("a\udcff", None)


def test_visible_text_has_no_empty_piece(folder):
    chat = ChatPrompt(folder)
    tokens = [2, *chat.encode("hi"), 4, *chat.encode("!"), 9_999]
    assert list(visible(chat.tokenizer, iter(tokens))) == ["h", "i", "!"]


@pytest.mark.parametrize("where", ["chat_template.jinja", "chat_template.json"])
def test_where_templates_are_kept(folder, where):
    template = "T{{ messages[0]['content'] }}"
    text = template if where.endswith("jinja") else json.dumps({"chat_template": template})
    (folder / where).write_text(text)
    assert ChatPrompt(folder).pieces("x", None) == ["Tx", CLIP]


def test_a_template_may_refuse(folder):
    (folder / "chat_template.jinja").write_text("{{ raise_exception('no audio') }}")
    with pytest.raises(CheckpointError, match="refuses a transcription: no audio"):
        ChatPrompt(folder).pieces(None, None)


def test_a_template_that_loses_the_clip_is_refused(folder):
    (folder / "chat_template.jinja").write_text("hello")
    with pytest.raises(Exception, match="ordered audio sentinel 1 is missing"):
        ChatPrompt(folder).pieces(None, None)


def test_missing_parts_are_named(folder):
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="there is no chat template"):
        ChatPrompt(folder)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        ChatPrompt(folder)


@pytest.mark.parametrize(
    ("generation", "config", "stop"),
    [
        ({"eos_token_id": [1, 106]}, {"eos_token_id": 7}, {1, 106}),
        ({}, {"eos_token_id": 7}, {7}),
        ({}, {"text_config": {"eos_token_id": 0}}, {0}),
        ({"eos_token_id": "<eos>"}, {"eos_token_id": 7}, {7}),
        ({"eos_token_id": [{"id": 1}]}, {"eos_token_id": 7}, {7}),
    ],
)
def test_what_ends_an_answer(folder, generation, config, stop):
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "config.json").write_text(json.dumps(config))
    assert ChatPrompt(folder).stop == stop


def test_an_answer_must_end(folder):
    (folder / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="ends an answer"):
        ChatPrompt(folder)
