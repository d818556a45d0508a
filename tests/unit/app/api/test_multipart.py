from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.multipart import read_body, read_form
from app.errors import BadRequest, RequestTimeout, TooLarge
from tests.contract.wire import form, part, raw_part

TEXTS = frozenset({"language", "prompt"})
BOUNDS = {"max_bytes": 100_000, "max_parts": 8, "max_seconds": 5.0, "texts": TEXTS}


def read(request, **changes):
    """The texts by name, and the file's name and bytes."""

    async def run():
        async with read_form(request, **{**BOUNDS, **changes}) as found:
            if found.file is None:
                return dict(found.texts), None, None
            found.file.file.seek(0)
            content = found.file.file.read()
            assert len(content) == found.file.size
            return dict(found.texts), found.file.name, content

    return asyncio.run(run())


def refusal(action):
    try:
        action()
    except BadRequest as error:
        return error
    return None


def request_of(exchange, *parts, cuts=()):
    whole = form(*parts)
    body = whole["content"]
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[a:b] for a, b in pairwise(edges)]
    return exchange(*chunks, headers=whole["headers"]).request


@given(
    content=st.binary(max_size=3000),
    language=st.text(max_size=50),
    cuts=st.lists(st.integers(0, 4000), max_size=6),
)
def test_a_form_is_the_same_however_it_is_cut(exchange, content, language, cuts):
    parts = (part("file", content, "a.wav"), part("language", language), part("other", "x"))
    found = read(request_of(exchange, *parts, cuts=cuts))
    assert found == ({"language": [language]}, "a.wav", content)


@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=3))
def test_any_bytes_are_a_form_or_a_clear_error(exchange, junk, cuts):
    edges = [0, *sorted(min(cut, len(junk)) for cut in cuts), len(junk)]
    chunks = [junk[a:b] for a, b in pairwise(edges)]
    headers = {"Content-Type": "multipart/form-data; boundary=edge"}
    with pytest.raises(BadRequest, match="invalid multipart form-data: "):
        read(exchange(*chunks, headers=headers).request)


@given(st.binary(max_size=300))
def test_any_part_header_is_read_or_a_clear_error(exchange, header):
    error = refusal(lambda: read(request_of(exchange, raw_part(header, b"x"))))
    assert error is None or error.message.startswith("invalid multipart form-data: ")


@given(st.text(max_size=200))
def test_any_content_type_is_read_or_a_clear_error(exchange, kind):
    headers = {"Content-Type": kind.encode("utf-8").decode("latin-1")}
    with pytest.raises(BadRequest, match="invalid multipart form-data: "):
        read(exchange(b"", headers=headers).request)


def test_a_file_by_name_needs_no_filename(exchange):
    parts = (part("file", b"abc"),)
    assert read(request_of(exchange, *parts))[2] is None
    assert read(request_of(exchange, *parts), file_by_name=True)[1:] == ("", b"abc")


def test_texts_once_and_last(exchange):
    async def run(request):
        async with read_form(request, **BOUNDS) as found:
            names = ("language", "prompt", "missing")
            return [(found.once(name), found.last(name)) for name in names]

    parts = (part("language", "a"), part("prompt", "b"), part("prompt", "c"))
    request = request_of(exchange, *parts)
    assert asyncio.run(run(request)) == [("a", "a"), (None, "c"), (None, None)]


def test_too_large_is_raised_before_the_rest_is_read(exchange):
    call = exchange(*[bytes(60_000)] * 10, headers=form()["headers"])
    whole = form(part("file", b"", "a.wav"), end=False)["content"]
    call.chunks[0] = whole + call.chunks[0]
    with pytest.raises(TooLarge):
        read(call.request)
    assert call.received == 2


def test_too_large_by_its_own_word_is_not_read_at_all(exchange):
    call = exchange(b"x", headers={**form()["headers"], "Content-Length": "100001"})
    with pytest.raises(TooLarge):
        read(call.request)
    assert call.received == 0


def test_a_body_that_does_not_arrive_is_a_timeout(exchange):
    call = exchange(b"--edge\r\n", headers=form()["headers"])
    call.endless = True
    with pytest.raises(RequestTimeout):
        read(call.request, max_seconds=0.01)


def test_too_many_parts(exchange):
    parts = [part("x", "y")] * 9
    with pytest.raises(BadRequest, match="multipart form has more than 8 parts"):
        read(request_of(exchange, *parts))


def test_a_plain_body_is_bounded_the_same_way(exchange):
    call = exchange(b"ab", b"cd")
    assert asyncio.run(read_body(call.request, max_bytes=4, max_seconds=5)) == b"abcd"
    with pytest.raises(TooLarge):
        asyncio.run(read_body(exchange(b"ab", b"cd").request, max_bytes=3, max_seconds=5))
