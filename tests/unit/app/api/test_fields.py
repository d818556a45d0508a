from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import fields
from app.errors import BadRequest


def outcome(check, value):
    """What the field is taken for, or the error that refuses it."""
    try:
        return check(value)
    except BadRequest as error:
        return error


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_finite_float_is_a_temperature(value):
    assert fields.temperature(f" {value!r} ") == value


@given(st.text())
def test_a_temperature_is_a_finite_float_or_nothing_or_refused(value):
    found = outcome(fields.temperature, value)
    if isinstance(found, BadRequest):
        assert found.param == "temperature"
        assert found.message == f"invalid 'temperature' value: {value}"
    else:
        assert found is None or math.isfinite(found)


@given(st.integers(0, 10**17))
def test_every_count_is_a_token_limit(value):
    assert fields.max_tokens(f"{value}") == value
    assert fields.max_tokens(f" +00{value}\n") == value


@given(st.text())
def test_a_token_limit_is_a_count_or_nothing_or_refused(value):
    found = outcome(fields.max_tokens, value)
    if isinstance(found, BadRequest):
        assert found.message == f"invalid 'max_tokens' value: {value}"
    else:
        assert found is None or found >= 0


@given(st.floats() | st.none())
def test_speed_is_within_what_is_understood(value):
    found = fields.speed(value)
    assert fields.SLOWEST <= found <= fields.FASTEST
    if value is None or not math.isfinite(value) or value <= 0:
        assert found == 1.0


@given(st.text(st.characters()))
def test_spoken_text_is_text_and_no_longer_than_the_cut(value):
    found = outcome(fields.spoken, value)
    if isinstance(found, BadRequest):
        assert not value.strip()
    else:
        assert 0 < len(found) <= fields.INPUT_CHARACTERS
        found.encode()


def test_spoken_text_is_cut_after_it_is_trimmed():
    assert fields.spoken(" " * 10 + "a" * 5000) == "a" * 4096


def test_a_lone_surrogate_is_replaced():
    assert fields.spoken("a\ud800b") == "a\ufffdb"


@given(st.text())
def test_a_voice_is_a_safe_name_or_the_default(value):
    found = fields.voice(value)
    assert found is None or (found == value.strip() and "/" not in found and "." not in found)


@pytest.mark.parametrize("value", [None, "", " ", "a/b", "a\n", "..", "v" * 65, "\u00e9"])
def test_an_unsafe_voice_is_the_default(value):
    assert fields.voice(value) in (None, "a")
    assert fields.voice(" af_heart ") == "af_heart"


@given(st.none() | st.text())
def test_formats_are_known_or_refused(value):
    for check, known in (
        (fields.transcription_format, {"json"}),
        (fields.translation_format, {"json", "text", "verbose_json"}),
        (fields.speech_format, {"wav"}),
    ):
        found = outcome(check, value)
        if isinstance(found, BadRequest):
            assert found.param == "response_format"
        else:
            assert found in known


def test_language_and_prompt_are_trimmed_and_bounded():
    assert fields.language(" EN ") == "en"
    assert fields.language(" ") is None
    assert len(fields.language("x" * 1000) or "") == fields.NAME_CHARACTERS
    assert len(fields.prompt("x" * 100_000) or "") == fields.PROMPT_CHARACTERS
