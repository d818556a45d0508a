"""Section 6: sentinels over messages and parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.preprocess.placeholders import (
    Medium,
    Placeholder,
    SentinelError,
    expand,
    flatten,
    parse,
    phi4mm_prompt,
    splice,
    strip,
)

AUDIO = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
IMAGE = {"type": "image_url", "image_url": {"url": ""}}
VIDEO = {"type": "video_url", "video_url": {"url": ""}}


def text(value):
    return {"type": "text", "text": value}


def user(*parts):
    return {"role": "user", "content": list(parts)}


def audio(n):
    return f"<|mlxcel_ordered_audio_{n}|>"


def image(n):
    return f"<|mlxcel_ordered_image_{n}|>"


def test_6_parts_become_one_string_in_order():
    flat = flatten([user(text("a "), IMAGE, text(" b"), AUDIO, VIDEO, AUDIO, text("c"))])
    assert flat.messages[0] == {
        "role": "user",
        "content": f"a {image(1)} b{audio(1)}{audio(2)}c",
    }
    assert (flat.audios, flat.images) == (2, 1)


def test_6_numbers_go_on_over_messages():
    messages = [user(AUDIO, IMAGE), {"role": "assistant", "content": "yes"}, user(IMAGE, AUDIO)]
    flat = flatten(messages)
    assert flat.messages[0]["content"] == audio(1) + image(1)
    assert flat.messages[1] == messages[1]
    assert flat.messages[2]["content"] == image(2) + audio(2)


def test_6_without_audio_nothing_changes():
    messages = [user(text(audio(1)), IMAGE), {"role": "user", "content": image(3)}]
    flat = flatten(messages)
    assert flat.messages == tuple(messages)
    assert (flat.audios, flat.images) == (0, 0)


@pytest.mark.parametrize(
    "injected", [audio(1), image(9), "<|mlxcel_ordered_", "x<|mlxcel_ordered_y"]
)
def test_6_injected_sentinels_are_refused_wherever_they_stand(injected):
    reserved = "message text contains a reserved ordered-media sentinel"
    for message in (user(text(injected)), {"role": "system", "content": injected}):
        with pytest.raises(SentinelError) as caught:
            flatten([message, user(AUDIO)])
        assert str(caught.value) == reserved


def test_6_parts_of_unknown_type_are_refused():
    with pytest.raises(SentinelError, match="unsupported content part of type 'tool'"):
        flatten([user(AUDIO, {"type": "tool"})])


def test_6_parse_finds_what_flatten_put_there():
    prompt = f"<user>{audio(1)} and {image(1)}{audio(2)}</user>"
    assert parse(prompt, audios=2, images=1) == [
        "<user>",
        Placeholder(medium=Medium.AUDIO, ordinal=1),
        " and ",
        Placeholder(medium=Medium.IMAGE, ordinal=1),
        Placeholder(medium=Medium.AUDIO, ordinal=2),
        "</user>",
    ]


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("<|mlxcel_ordered_audio_1", "malformed ordered media sentinel: missing |>"),
        ("<|mlxcel_ordered_audio|>", "malformed ordered media sentinel: missing ordinal"),
        ("<|mlxcel_ordered_audio_|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_audio_x|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_audio_-1|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_audio_0|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_audio_01|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_audio_\u0661|>", "malformed ordered media sentinel: invalid ordinal"),
        ("<|mlxcel_ordered_video_1|>", "malformed ordered media sentinel: unknown kind"),
        (audio(2), "ordered audio sentinel 2 is out of sequence; expected 1"),
        (audio(1) + audio(1), "ordered audio sentinel 1 is out of sequence; expected 2"),
        (audio(1) + audio(3), "ordered audio sentinel 3 is out of sequence; expected 2"),
        (audio(2) + audio(1), "ordered audio sentinel 2 is out of sequence; expected 1"),
        (image(2), "ordered image sentinel 2 is out of sequence; expected 1"),
        (audio(1), "ordered audio sentinel 2 is missing"),
        ("", "ordered audio sentinel 1 is missing"),
        (audio(1) + audio(2), "ordered image sentinel 1 is missing"),
        (audio(1) + audio(2) + audio(3) + image(1), "ordered audio sentinel 3 was never declared"),
        (audio(1) + audio(2) + image(1) + image(2), "ordered image sentinel 2 was never declared"),
    ],
)
def test_6_anything_but_all_in_order_fails_closed(prompt, reason):
    with pytest.raises(SentinelError) as caught:
        parse(prompt, audios=2, images=1)
    assert str(caught.value) == reason


def test_6_plain_tokenisation_strips_sentinels():
    assert strip(f"a{audio(1)}b{image(1)}") == "ab"


def test_6_phi4mm_numbers_its_placeholders():
    pieces = parse(f"x{audio(1)}{image(1)}y{audio(2)}", audios=2, images=1)
    assert phi4mm_prompt(pieces) == "x<|audio_1|><|image_1|>y<|audio_2|>"


def letters(text):
    return [ord(letter) for letter in text]


def test_6_text_around_a_medium_is_tokenised_with_its_neighbours():
    written = []

    def encode(text):
        written.append(text)
        return letters(text)

    pieces = parse(f"a{audio(1)}{audio(2)}b", audios=2, images=0)
    ids = {Medium.AUDIO: 900}
    assert splice(pieces, encode, ids, around="|") == [97, 124, 900, 124, 124, 900, 124, 98]
    assert written == ["a|", "||", "|b"]


def test_6_gemma3n_splices_ids_and_expands_in_place():
    pieces = parse(f"ab{audio(1)}{image(1)}c", audios=1, images=1)
    ids = {Medium.AUDIO: 900, Medium.IMAGE: 901}
    tokens = splice(pieces, letters, ids)
    assert tokens == [97, 98, 900, 901, 99]
    expanded = expand(tokens, 900, [900] * 188)
    assert expanded == [97, 98, *[900] * 188, 901, 99]


@given(
    layout=st.lists(
        st.lists(st.sampled_from(["audio", "image", "video", "some text", ""]), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_6_flatten_and_parse_agree_for_any_layout(layout):
    parts = {"audio": AUDIO, "image": IMAGE, "video": VIDEO}
    messages = [user(*[parts.get(kind, text(kind)) for kind in kinds]) for kinds in layout]
    messages.append(user(AUDIO))
    flat = flatten(messages)
    prompt = "".join(message["content"] for message in flat.messages)
    pieces = parse(prompt, audios=flat.audios, images=flat.images)
    kinds = [kind for message in layout for kind in message if kind in ("audio", "image")]
    found = [piece.medium.value for piece in pieces if isinstance(piece, Placeholder)]
    assert found == [*kinds, "audio"]
    assert strip(prompt) == "".join(piece for piece in pieces if isinstance(piece, str))
