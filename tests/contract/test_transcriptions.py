"""contract.md, "POST /v1/audio/transcriptions", rule by rule."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.contract.wire import form, part, raw_part, recording

ROUTE = "/v1/audio/transcriptions"
WAV = recording()
FILE = part("file", WAV, "a.wav")


def send(client: httpx2.Client, *parts: bytes, **options: object) -> httpx2.Response:
    return client.post(ROUTE, **form(*parts), **options)


def text(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def refused(answer: httpx2.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    return answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def expected(service: object) -> str:
    return text(send(service.client, FILE))


def test_200_key_order_is_kept(client: httpx2.Client, expected: str) -> None:
    answer = send(client, FILE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == (
        '{"type":"transcript.text.done","text":' + json.dumps(expected) + ',"usage":{'
        '"type":"tokens","input_tokens":0,"output_tokens":0,"total_tokens":0,'
        '"input_tokens_details":{"cached_tokens":0}}}'
    )


def test_200_text_is_trimmed(client: httpx2.Client, expected: str) -> None:
    assert expected == expected.strip() != ""


def test_alias_without_v1(client: httpx2.Client, expected: str) -> None:
    assert text(client.post("/audio/transcriptions", **form(FILE))) == expected


def test_file_repeated_keeps_the_last(client: httpx2.Client, expected: str) -> None:
    other = part("file", recording(step=0.2), "b.wav")
    assert text(send(client, other, FILE)) == expected
    assert text(send(client, FILE, other)) != expected


def test_file_without_a_filename_is_text(client: httpx2.Client) -> None:
    message = refused(send(client, part("file", WAV)))
    assert message == "No input file found for transcription"


def test_file_with_an_empty_filename_is_a_file(client: httpx2.Client, expected: str) -> None:
    assert text(send(client, part("file", WAV, ""))) == expected


def test_files_under_other_names_are_dropped(client: httpx2.Client, expected: str) -> None:
    junk = part("attachment", b"junk", "x.bin")
    assert text(send(client, junk, FILE, junk)) == expected
    assert refused(send(client, junk)) == "No input file found for transcription"


def test_file_named_like_a_text_field_is_dropped(client: httpx2.Client, expected: str) -> None:
    assert text(send(client, FILE, part("response_format", "srt", "x.txt"))) == expected


def test_repeated_text_field_falls_back_to_its_default(
    client: httpx2.Client, expected: str
) -> None:
    srt = part("response_format", "srt")
    hot = part("temperature", "hot")
    assert text(send(client, FILE, srt, srt, hot, hot)) == expected


def test_unknown_fields_and_model_are_ignored(client: httpx2.Client, expected: str) -> None:
    fields = [part("model", "nobody"), part("", "nameless"), part("include[]", "logprobs")]
    assert text(send(client, *fields, FILE)) == expected


def test_32_parts_are_taken_and_33_are_not(client: httpx2.Client, expected: str) -> None:
    more = [part(f"x{n}", "y") for n in range(31)]
    assert text(send(client, *more, FILE)) == expected
    assert refused(send(client, *more, FILE, FILE)) == "multipart form has more than 32 parts"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x\r\n"),
        ("multipart/form-data; boundary=", b"--\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"junk"),
        ("multipart/form-data; boundary=x", b"--y\r\n\r\n--y--\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"\r\n'),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno disposition\r\n--x--\r\n"),
        ("multipart/form-data; boundary=x", b"--x\r\nBad Header: a\r\n\r\nb\r\n--x--\r\n"),
        ("multipart/form-data; boundary=" + "x" * 300, b"--x--\r\n"),
        ("multipart/form-data; boundary=\x80", b"--x--\r\n"),
        ("multipart/mixed; boundary=x", b"--x--\r\n"),
    ],
)
def test_malformed_multipart_is_400(client: httpx2.Client, content_type: str, body: bytes) -> None:
    headers = {b"Content-Type": content_type.encode("latin-1")}
    message = refused(client.post(ROUTE, content=body, headers=headers))
    assert message.startswith("invalid multipart form-data: ")


def test_no_multipart_at_all_is_400(client: httpx2.Client) -> None:
    assert refused(client.post(ROUTE)).startswith("invalid multipart form-data: ")


def test_a_form_cut_short_is_400(client: httpx2.Client) -> None:
    cut = form(FILE, end=False)
    assert refused(client.post(ROUTE, **cut)).startswith("invalid multipart form-data: ")


def test_no_file_is_400(client: httpx2.Client) -> None:
    assert refused(send(client, part("model", "m"))) == "No input file found for transcription"
    assert refused(send(client)) == "No input file found for transcription"


@pytest.mark.parametrize("value", ["JSON", "", "text", "verbose_json", "srt", " json", "vtt"])
def test_response_format_is_absent_or_exactly_json(client: httpx2.Client, value: str) -> None:
    message = refused(send(client, FILE, part("response_format", value)))
    assert message == "Only 'json' response_format is supported for transcription"


def test_response_format_json_is_taken(client: httpx2.Client, expected: str) -> None:
    assert text(send(client, FILE, part("response_format", "json"))) == expected


@pytest.mark.parametrize("value", ["0", "0.5", " 1e-1 ", ".5", "2.", "-1", "+0", "", "  "])
def test_temperature_is_a_float_or_blank(client: httpx2.Client, expected: str, value: str) -> None:
    assert text(send(client, FILE, part("temperature", value))) == expected


@pytest.mark.parametrize("value", ["hot", "nan", "inf", "-Infinity", "1e39", "0x1", "1,5", "1_0"])
def test_temperature_that_is_no_finite_float_is_400(client: httpx2.Client, value: str) -> None:
    message = refused(send(client, FILE, part("temperature", value)))
    assert message == f"invalid 'temperature' value: {value}"


@pytest.mark.parametrize("value", ["0", " 7 ", "448", "", " "])
def test_max_tokens_is_a_count_or_blank(client: httpx2.Client, expected: str, value: str) -> None:
    assert text(send(client, FILE, part("max_tokens", value))) == expected


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "1e3", "9" * 30, "\u0661"])
def test_max_tokens_that_is_no_count_is_400(client: httpx2.Client, value: str) -> None:
    message = refused(send(client, FILE, part("max_tokens", value)))
    assert message == f"invalid 'max_tokens' value: {value}"


def test_temperature_is_checked_first(client: httpx2.Client) -> None:
    fields = [part("max_tokens", "x"), part("response_format", "x"), part("temperature", "x")]
    assert refused(send(client, FILE, *fields)) == "invalid 'temperature' value: x"


def test_prompt_and_language_are_hints(client: httpx2.Client, expected: str) -> None:
    fields = [part("prompt", " Names: Ada. "), part("language", " EN ")]
    assert text(send(client, FILE, *fields)) == expected


@pytest.mark.parametrize("value", ["True", "1", "yes", " true", "false", ""])
def test_stream_is_true_only_for_the_literal(
    client: httpx2.Client, expected: str, value: str
) -> None:
    assert text(send(client, FILE, part("stream", value))) == expected


def test_stream_frames_are_exact(client: httpx2.Client, expected: str) -> None:
    answer = send(client, FILE, part("stream", "true"))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    done = send(client, FILE).text
    assert answer.text == (
        'data: {"type":"transcript.text.delta","delta":' + json.dumps(expected) + "}\n\n"
        f"data: {done}\n\n"
        "data: [DONE]\n\n"
    )


def test_stream_sends_an_empty_delta(client: httpx2.Client) -> None:
    silent = part("file", recording(0.0), "a.wav")
    answer = send(client, silent, part("stream", "true"))
    assert answer.text.startswith('data: {"type":"transcript.text.delta","delta":""}\n\n')
    assert answer.text.endswith("data: [DONE]\n\n")


def test_stream_fails_before_it_opens_as_json(client: httpx2.Client) -> None:
    message = refused(send(client, part("file", b"junk", "a.wav"), part("stream", "true")))
    assert message == "failed to read the uploaded audio: not a RIFF/WAVE file"


def test_zero_samples_are_an_empty_transcript(client: httpx2.Client) -> None:
    assert text(send(client, part("file", recording(0.0), "a.wav"))) == ""


def test_name_and_declared_type_never_decide(client: httpx2.Client, expected: str) -> None:
    odd = raw_part('form-data; name="file"; filename="a.mp3"\r\nContent-Type: audio/mpeg', WAV)
    assert text(send(client, odd)) == expected
    text_file = raw_part('form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', "x")
    assert refused(send(client, text_file)).endswith("not a RIFF/WAVE file")


def test_empty_upload_is_400(client: httpx2.Client) -> None:
    answer = send(client, part("file", b"", "a.wav"))
    assert refused(answer) == "failed to read the uploaded audio: not a RIFF/WAVE file"
    assert answer.json()["error"]["param"] == "file"


def test_data_chunk_that_declares_too_much_is_clamped(client: httpx2.Client, expected: str) -> None:
    lying = WAV[:40] + b"\xff\xff\xff\x7f" + WAV[44:]
    assert text(send(client, part("file", lying, "a.wav"))) == expected
    cut = part("file", WAV[: len(WAV) // 2], "a.wav")
    assert text(send(client, cut)) not in ("", expected)


@pytest.mark.parametrize(
    ("seconds", "rate", "message"),
    [
        (0.01, 192_001, "audio sample rate 192001 Hz exceeds the maximum of 192000 Hz"),
        (601, 8_000, "audio is 601.0 seconds long, maximum is 600 seconds"),
    ],
)
def test_container_bounds(client: httpx2.Client, seconds: float, rate: int, message: str) -> None:
    file = part("file", recording(seconds, rate=rate), "a.wav")
    assert refused(send(client, file)) == message


def test_field_checks_come_before_container_bounds(client: httpx2.Client) -> None:
    junk = part("file", b"junk", "a.wav")
    message = refused(send(client, junk, part("temperature", "x")))
    assert message == "invalid 'temperature' value: x"
