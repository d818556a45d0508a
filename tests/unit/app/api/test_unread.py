from __future__ import annotations

import json

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from app.api import unread
from app.api.errors import Unexpected
from app.api.head import HeadAsGet
from app.api.unread import UnreadBody

LENGTH = {"Content-Length": "1000000"}
refuse = PlainTextResponse("no", status_code=413)


async def read_all(scope, receive, send):
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


def test_an_answer_after_the_whole_body_is_left_alone(exchange):
    call = exchange(b"ab", b"cd", headers=LENGTH)
    call.run(UnreadBody(read_all))
    assert call.body == b"4"
    assert b"connection" not in call.headers


def test_a_request_without_a_body_is_left_alone(exchange):
    call = exchange(headers={"Content-Length": "0"})
    call.run(UnreadBody(refuse))
    assert b"connection" not in call.headers
    assert call.received == 0


def test_an_early_answer_goes_out_whole_before_the_rest_is_thrown_away(exchange):
    call = exchange(b"a", b"b", b"c", headers=LENGTH)
    seen_when_sent = []

    async def watch(message):
        seen_when_sent.append((message["type"], message.get("body"), call.received))
        call.sent.append(message)

    call.send = watch
    call.run(UnreadBody(refuse))
    assert call.headers[b"connection"] == b"close"
    assert seen_when_sent == [
        ("http.response.start", None, 0),
        ("http.response.body", b"no", 0),
        ("http.response.body", b"", 3),
    ]


def test_a_body_without_an_end_is_given_up(exchange, monkeypatch):
    monkeypatch.setattr(unread, "LINGER_BYTES", 10)
    call = exchange(*[b"xxxx"] * 100, headers={"Transfer-Encoding": "chunked"})
    call.endless = True
    call.run(UnreadBody(refuse))
    assert call.received == 3
    assert call.sent[-1] == {"type": "http.response.body", "body": b""}


def test_a_client_that_falls_silent_is_given_up(exchange, monkeypatch):
    monkeypatch.setattr(unread, "LINGER_SECONDS", 0.01)
    call = exchange(b"x", headers=LENGTH)
    call.endless = True
    call.run(UnreadBody(refuse))
    assert call.sent[-1] == {"type": "http.response.body", "body": b""}


def test_a_client_that_waits_for_100_is_not_told_to_go_on(exchange):
    call = exchange(b"x", headers={**LENGTH, "Expect": "100-continue"})
    call.run(UnreadBody(refuse))
    assert call.received == 0
    assert call.headers[b"connection"] == b"close"


def test_head_is_asked_as_get(exchange):
    async def app(scope, receive, send):
        await PlainTextResponse(scope["method"])(scope, receive, send)

    call = exchange(method="HEAD")
    call.run(HeadAsGet(app))
    assert call.body == b"GET"
    assert call.scope["method"] == "HEAD"


def test_an_unexpected_error_is_the_envelope_and_says_nothing_of_its_cause(exchange):
    async def app(scope, receive, send):
        raise RuntimeError("secret")

    call = exchange()
    call.run(Unexpected(app))
    assert call.status == 500
    assert json.loads(call.body) == {
        "error": {
            "message": "The server failed.",
            "type": "server_error",
            "param": None,
            "code": None,
        }
    }


def test_an_error_after_the_answer_has_begun_cuts_the_connection(exchange):
    async def app(scope, receive, send):
        await JSONResponse({})(scope, receive, send)
        raise RuntimeError("late")

    call = exchange()
    with pytest.raises(RuntimeError, match="late"):
        call.run(Unexpected(app))
    assert [message["type"] for message in call.sent] == [
        "http.response.start",
        "http.response.body",
    ]
