"""contract.md, "POST /v1/audio/translations", rule by rule."""

from __future__ import annotations

import httpx2
import pytest

from tests.contract.wire import form, part, recording

ROUTE = "/v1/audio/translations"
WAV = recording()
FILE = part("file", WAV, "a.wav")


def send(client: httpx2.Client, *parts: bytes) -> httpx2.Response:
    return client.post(ROUTE, **form(*parts))


def text(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def refused(answer: httpx2.Response) -> str:
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]["message"]


@pytest.mark.parametrize("value", [None, "", "json", " JSON "])
def test_format_json_is_the_text_alone(client: httpx2.Client, value: str | None) -> None:
    answer = send(client, FILE, *([] if value is None else [part("response_format", value)]))
    assert text(answer).startswith("translate:")
    assert answer.text == '{"text":"' + text(answer) + '"}'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("value", ["text", "Text\t"])
def test_format_text_is_the_bare_transcript(client: httpx2.Client, value: str) -> None:
    answer = send(client, FILE, part("response_format", value))
    assert answer.text == text(send(client, FILE))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_format_verbose_json_has_language_and_duration(client: httpx2.Client) -> None:
    answer = send(client, FILE, part("response_format", "verbose_json"))
    assert list(answer.json()) == ["text", "language", "duration"]
    assert answer.json()["duration"] == 0.5
    assert answer.json()["language"] == "en"


@pytest.mark.parametrize("value", ["srt", "vtt", "xml", "json,text"])
def test_other_formats_are_400(client: httpx2.Client, value: str) -> None:
    assert refused(send(client, FILE, part("response_format", value))) == (
        f"response_format '{value}' is not supported; "
        "supported formats are: json, text, verbose_json"
    )


def test_file_works_without_a_filename(client: httpx2.Client) -> None:
    assert text(send(client, part("file", WAV))) == text(send(client, FILE))


def test_repeated_field_keeps_the_last(client: httpx2.Client) -> None:
    other = part("file", recording(step=0.2), "b.wav")
    assert text(send(client, other, FILE)) == text(send(client, FILE))
    fields = [part("response_format", "srt"), part("response_format", "text")]
    assert send(client, FILE, *fields).headers["content-type"].startswith("text/plain")


def test_unknown_parts_are_drained(client: httpx2.Client) -> None:
    junk = [part("model", "x"), part("attachment", b"\xff\x00", "a.bin"), part("x", b"\xff")]
    assert text(send(client, *junk, FILE)) == text(send(client, FILE))


def test_prompt_max_tokens_and_stream_are_ignored(client: httpx2.Client) -> None:
    fields = [part("prompt", "p"), part("max_tokens", "many"), part("stream", "true")]
    assert text(send(client, FILE, *fields)) == text(send(client, FILE))


def test_1000_parts_are_taken_and_1001_are_not(client: httpx2.Client) -> None:
    more = [part("x", "y")] * 999
    assert text(send(client, *more, FILE))
    assert refused(send(client, *more, FILE, FILE)) == "multipart form has more than 1000 parts"


def test_bad_temperature_is_400(client: httpx2.Client) -> None:
    message = refused(send(client, FILE, part("temperature", "hot")))
    assert message == "invalid 'temperature' value: hot"


def test_no_file_is_400(client: httpx2.Client) -> None:
    message = refused(send(client, part("model", "m")))
    assert message == "missing required 'file' part in multipart form-data"


def test_malformed_multipart_is_400(client: httpx2.Client) -> None:
    answer = client.post(ROUTE, content=b"{}", headers={"Content-Type": "application/json"})
    assert refused(answer).startswith("invalid multipart form-data: ")


def test_container_bounds_hold(client: httpx2.Client) -> None:
    file = part("file", recording(601, rate=8000), "a.wav")
    assert refused(send(client, file)) == "audio is 601.0 seconds long, maximum is 600 seconds"


def test_alias_without_v1(client: httpx2.Client) -> None:
    assert text(client.post("/audio/translations", **form(FILE))) == text(send(client, FILE))
