"""contract.md, "POST /v1/audio/speech", rule by rule."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import httpx2
import pytest
import soundfile

from tests.harness import calls

ROUTE = "/v1/audio/speech"
TEXT = "Good morning to you"
JSON = {"Content-Type": "application/json"}


def say(client: httpx2.Client, text: str = TEXT, **more: Any) -> httpx2.Response:
    return client.post(ROUTE, json={"model": "m", "input": text, **more})


def spoken(answer: httpx2.Response) -> bytes:
    assert answer.status_code == 200, answer.text
    return answer.content


def seconds(answer: httpx2.Response) -> float:
    return soundfile.info(io.BytesIO(spoken(answer))).duration


def refused(answer: httpx2.Response) -> str:
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def expected(service: Any) -> bytes:
    return spoken(say(service.client))


def test_200_headers(client: httpx2.Client) -> None:
    answer = say(client)
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["content-disposition"] == "attachment; filename=speech.wav"
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_wav_header_has_true_sizes(expected: bytes) -> None:
    riff, size, wave, fmt, length, tag, channels, rate, per_second, align, bits, data, count = (
        struct.unpack("<4sI4s4sIHHIIHH4sI", expected[:44])
    )
    assert (riff, wave, fmt, data) == (b"RIFF", b"WAVE", b"fmt ", b"data")
    assert (length, tag, channels, rate, bits) == (16, 1, 1, 16_000, 16)
    assert (align, per_second) == (2, 2 * rate)
    assert size == len(expected) - 8
    assert count == len(expected) - 44 > 0


def test_alias_without_v1(client: httpx2.Client, expected: bytes) -> None:
    answer = client.post("/audio/speech", json={"model": "m", "input": TEXT})
    assert spoken(answer) == expected


def test_optional_fields_may_be_null_and_unknown_ones_are_ignored(
    client: httpx2.Client, expected: bytes
) -> None:
    nulls = {"voice": None, "response_format": None, "speed": None}
    assert spoken(say(client, **nulls, instructions="x", stream_format=[1, {}])) == expected


@pytest.mark.parametrize("value", ["", "wav", " WAV "])
def test_response_format_wav(client: httpx2.Client, expected: bytes, value: str) -> None:
    assert spoken(say(client, response_format=value)) == expected


@pytest.mark.parametrize("value", ["mp3", "pcm", "wave"])
def test_other_response_formats_are_400(client: httpx2.Client, value: str) -> None:
    message = refused(say(client, response_format=value))
    assert message == f"response_format '{value}' is not supported; only 'wav' is available"


@pytest.mark.parametrize("value", ["", "  ", "\n\t\u2003"])
def test_empty_input_is_400(client: httpx2.Client, value: str) -> None:
    assert refused(say(client, value)) == "empty input text for synthesis"


@pytest.mark.parametrize("value", ["...", "\U0001f600", "?!", "\u0000"])
def test_input_without_phonemes_is_400(client: httpx2.Client, value: str) -> None:
    assert refused(say(client, value)) == "no phonemes for the input text"


def test_text_beyond_4096_characters_is_cut(client: httpx2.Client) -> None:
    assert spoken(say(client, "a" * 5000)) == spoken(say(client, "a" * 4096))
    assert seconds(say(client, "a" * 4096)) > seconds(say(client, "a" * 4095))


@pytest.mark.parametrize(
    "value", ["nobody", "../../etc/passwd", "a b", "", " ", "af_heart\u0000", "v" * 10_000]
)
def test_voice_that_is_unknown_or_unsafe_is_the_default(
    client: httpx2.Client, expected: bytes, value: str
) -> None:
    assert spoken(say(client, voice=value)) == expected


def test_voice_is_trimmed(client: httpx2.Client, expected: bytes) -> None:
    assert spoken(say(client, voice=" am_adam ")) == spoken(say(client, voice="am_adam"))
    assert spoken(say(client, voice="am_adam")) != expected


@pytest.mark.parametrize("value", ["0", "-1", "NaN", "Infinity", "-Infinity", "1e999", "1", "null"])
def test_speed_that_is_not_positive_or_not_finite_is_one(
    client: httpx2.Client, expected: bytes, value: str
) -> None:
    body = f'{{"model":"m","input":"{TEXT}","speed":{value}}}'
    assert spoken(client.post(ROUTE, content=body, headers=JSON)) == expected


def test_speed_scales_the_duration(client: httpx2.Client) -> None:
    assert seconds(say(client, speed=2.0)) == pytest.approx(seconds(say(client)) / 2, abs=0.01)
    assert seconds(say(client, speed=0.5)) == pytest.approx(seconds(say(client)) * 2, abs=0.01)


def test_extreme_speed_is_held_to_a_quarter_and_four(client: httpx2.Client) -> None:
    assert spoken(say(client, speed=1e-30)) == spoken(say(client, speed=0.25))
    assert spoken(say(client, speed=1e30)) == spoken(say(client, speed=4.0))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model":"m","input":"x"} trailing',
        b'{"model":"m","input":"\xff"}',
        b"[" * 100_000,
        b'{"model":"m","input":"x","y":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","input":"x","y":[' + b"[]," * 1_100_000 + b"1]}",
        b'{"model":"m","input":"x","speed":' + b"9" * 10_000 + b"}",
    ],
    ids=["empty", "cut", "trailing", "latin-1", "deep", "deep value", "wide", "digits"],
)
def test_what_is_not_json_is_400(client: httpx2.Client, body: bytes) -> None:
    answer = client.post(ROUTE, content=body, headers=JSON)
    assert refused(answer).startswith("the body is not JSON: ")


@pytest.mark.parametrize("value", ["a\\ud800b", "\\udc00\\ud800", "\\ud83d"])
def test_lone_surrogates_do_not_fail(client: httpx2.Client, value: str) -> None:
    body = f'{{"model":"{value}","input":"Hello {value}","voice":"{value}"}}'
    assert spoken(client.post(ROUTE, content=body, headers=JSON))


def test_content_type_may_have_parameters(client: httpx2.Client, expected: bytes) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    body = f'{{"model":"m","input":"{TEXT}"}}'
    assert spoken(client.post(ROUTE, content=body, headers=headers)) == expected


def test_a_refused_request_reaches_no_model(client: httpx2.Client, model: Path) -> None:
    before = len(calls(model))
    refused(say(client, response_format="mp3"))
    refused(say(client, " "))
    assert len(calls(model)) == before
