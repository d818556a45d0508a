"""contract.md, "Errors": one envelope for every answer that is not a success."""

from __future__ import annotations

import httpx2
import pytest

from tests.contract.wire import Wire, form, part, recording
from tests.harness import Service

KEYS = {"message", "type", "param", "code"}


def error(answer: httpx2.Response, status: int, type_: str = "invalid_request_error") -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == KEYS
    assert answer.json()["error"]["type"] == type_
    return answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/audio", "/v1/audio/speech/", "/nothing/%00"])
def test_404_unknown_route(client: httpx2.Client, path: str) -> None:
    error(client.get(path), 404)


def test_405_names_every_allowed_method(client: httpx2.Client) -> None:
    answer = client.get("/v1/audio/speech")
    error(answer, 405)
    assert answer.headers["allow"] == "POST"
    answer = client.put("/v1/jobs/job_" + "0" * 32)
    error(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD, DELETE"


def test_405_of_a_post_with_a_body_that_nobody_reads(client: httpx2.Client) -> None:
    answer = client.post("/v1/models", content=b"x" * 100_000)
    error(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"


def test_415_wrong_json_content_type_on_speech(client: httpx2.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        error(
            client.post("/v1/audio/speech", content=b"{}", headers={"Content-Type": kind}),
            415,
        )
    error(client.post("/v1/audio/speech"), 415)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": None}, "input"),
        ({"model": 1, "input": "x"}, "model"),
        ({"model": "m", "input": ["x"]}, "input"),
        ({"model": "m", "input": "x", "voice": 3}, "voice"),
        ({"model": "m", "input": "x", "response_format": True}, "response_format"),
        ({"model": "m", "input": "x", "speed": "fast"}, "speed"),
        ({"model": "m", "input": "x", "speed": True}, "speed"),
        ({"model": "m", "input": "x", "speed": 10**400}, "speed"),
    ],
)
def test_422_wrong_shape_says_which_field(client: httpx2.Client, body: dict, field: str) -> None:
    found = error(client.post("/v1/audio/speech", json=body), 422)
    assert found["param"] == field
    assert field in found["message"]


@pytest.mark.parametrize("body", ["[]", "null", '"x"', "1"])
def test_422_json_that_is_no_object(client: httpx2.Client, body: str) -> None:
    answer = client.post(
        "/v1/audio/speech", content=body, headers={"Content-Type": "application/json"}
    )
    error(answer, 422)


def test_422_of_a_query_parameter(client: httpx2.Client) -> None:
    assert error(client.get("/v1/jobs?limit=0"), 422)["param"] == "limit"


def test_500_the_model_failed_on_this_request(client: httpx2.Client) -> None:
    answer = client.post("/v1/audio/speech", json={"model": "m", "input": "RAISE"})
    found = error(answer, 500, "server_error")
    assert found["message"] == "audio model inference failed: asked to fail"


def test_head_is_get_without_a_body(client: httpx2.Client) -> None:
    answer = client.head("/v1/models")
    assert answer.status_code == 200
    assert answer.headers["content-length"] == client.get("/v1/models").headers["content-length"]
    assert answer.content == b""
    assert client.head("/v1/audio/speech").status_code == 405
    assert client.head("/nothing").status_code == 404
    assert client.get("/health").status_code == 200  # the connection is still in step


def test_request_id_on_errors_too(client: httpx2.Client) -> None:
    answer = client.get("/nothing", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    hostile = client.get("/nothing", headers={"X-Request-ID": "a b<c>"})
    assert hostile.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # a TLS client
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
    ids=["tls", "target", "negative", "two lengths", "huge header"],
)
def test_400_what_is_not_http(service: Service, junk: bytes) -> None:
    with Wire(service.url) as wire:
        wire.send_until_closed([junk])
        answer = wire.answer()
        assert answer.status == 400
        assert answer.error()["type"] == "invalid_request_error"
        assert wire.closed()


def test_400_chunks_that_are_none(service: Service) -> None:
    with Wire(service.url) as wire:
        wire.head(
            "/v1/audio/speech", "Content-Type: application/json", "Transfer-Encoding: chunked"
        )
        wire.send(b"zz\r\n")
        assert wire.answer().error()["type"] == "invalid_request_error"


def test_error_of_a_long_value_is_short(client: httpx2.Client) -> None:
    answer = client.post(
        "/v1/audio/transcriptions",
        **form(part("file", recording(), "a.wav"), part("temperature", "9" * 1_000_000)),
    )
    assert len(error(answer, 400)["message"]) <= 1000


def test_error_that_quotes_a_lone_surrogate(client: httpx2.Client) -> None:
    body = b'{"model":"m","input":"x","response_format":"\\ud800"}'
    answer = client.post(
        "/v1/audio/speech", content=body, headers={"Content-Type": "application/json"}
    )
    assert "'\ufffd'" in error(answer, 400)["message"]
