"""What a hostile or a broken client puts into a form: refused or ignored, never a 500."""

from __future__ import annotations

import httpx2
import pytest

from app.db import queries
from app.db.engine import Database
from tests import places
from tests.contract.wire import form, part, raw_part, recording
from tests.harness import Service

ROUTE = "/v1/audio/transcriptions"
WAV = recording()
FILE = part("file", WAV, "a.wav")


def send(client: httpx2.Client, *parts: bytes) -> httpx2.Response:
    return client.post(ROUTE, **form(*parts))


def kept_name(service: Service, disposition: str | bytes) -> str:
    """How the job's row remembers the name of the upload."""
    answer = send(service.client, raw_part(disposition, WAV))
    assert answer.status_code == 200, answer.text
    database = Database(places.database_url(service.data))
    with database.reading() as connection:
        latest = queries.list_jobs(connection, limit=1)[0]
    database.close()
    return latest.input_name


@pytest.mark.parametrize(
    ("filename", "kept"),
    [
        ('a\\"b.wav', 'a"b.wav'),
        ("../../etc/passwd", "passwd"),
        ("C:\\\\temp\\\\a.wav", "a.wav"),
        ("a\x00b.wav", "ab.wav"),
        ("a\tb.wav", "ab.wav"),
        ("; name=other", "; name=other"),
        ("é\U0001f600.wav", "é\U0001f600.wav"),
        ("x" * 300 + ".wav", "x" * 255),
        ("..", ".."),
        ("", ""),
    ],
)
def test_filename(service: Service, filename: str, kept: str) -> None:
    assert kept_name(service, f'form-data; name="file"; filename="{filename}"') == kept


@pytest.mark.parametrize(
    ("disposition", "kept"),
    [
        ("form-data; name=file; filename=a.wav", "a.wav"),
        ("form-data; name=file; filename*=UTF-8''na%C3%AFve%00%0d%0a.wav", "naïve.wav"),
        ("form-data; name=file; filename*=utf-8'en'a.wav; filename=b.wav", "b.wav"),
        ("form-data; name=file; filename*=undefined''%2e%2e%2fa.wav", "a.wav"),
        ("form-data; name=file; filename*=UTF-8''%ED%A0%80", "\ufffd\ufffd\ufffd"),
        ('FORM-DATA; NAME="x"; name="file"; filename="a.wav"', "a.wav"),
        (b'form-data; name="file"; filename="\xff\xfe.wav"', "\ufffd\ufffd.wav"),
    ],
)
def test_disposition(service: Service, disposition: str | bytes, kept: str) -> None:
    assert kept_name(service, disposition) == kept


@pytest.mark.parametrize(
    "item",
    [
        raw_part(b'form-data; name="\xff"', "x"),
        part("language", b"\xff\xfe"),
        part("prompt", b"\xed\xa0\x80"),
        raw_part("attachment; name=file; filename=a.wav", WAV),
        raw_part("form-data; filename=a.wav", WAV),
        raw_part('form-data; name="x"' + "; a=b" * 2000, "x"),
        raw_part('form-data; name="x"' + "\r\nX: y" * 20, "x"),
    ],
    ids=["name", "text", "surrogate", "kind", "nameless", "long header", "many headers"],
)
def test_malformed_part_is_400(client: httpx2.Client, item: bytes) -> None:
    answer = send(client, item, FILE)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("invalid multipart form-data: ")


def test_filename_with_line_breaks_ends_its_header(client: httpx2.Client) -> None:
    injected = part("file", WAV, 'a\r\nX-Injected: 1\r\n\r\n"')
    assert send(client, injected).status_code == 400  # what follows is not audio
    assert send(client, injected, FILE).status_code == 200


@pytest.mark.parametrize("value", ["\x00", "a\x00b", "\u202e", "x" * 1_000_000, "zz", "<script>"])
def test_text_fields_may_hold_anything(client: httpx2.Client, value: str) -> None:
    answer = send(client, FILE, part("prompt", value), part("language", value))
    assert answer.status_code in (200, 400), answer.text


def test_nested_multipart_is_a_part_like_any(client: httpx2.Client) -> None:
    inner = form(part("file", b"inner", "b.wav"), boundary="inner")["content"]
    nested = raw_part(
        'form-data; name="files"\r\nContent-Type: multipart/mixed; boundary=inner', inner
    )
    assert send(client, nested, FILE).status_code == 200
    mixed = raw_part(
        'form-data; name="file"; filename="b"\r\nContent-Type: multipart/mixed; boundary=inner',
        inner,
    )
    assert send(client, mixed).status_code == 400


@pytest.mark.parametrize("boundary", ["'()+_,-./:=?", "x" * 256, "-", "----"])
def test_boundary_tricks(client: httpx2.Client, boundary: str) -> None:
    request = form(part("file", WAV, "a.wav"), part("x", f"--{boundary}x"), boundary=boundary)
    request["headers"] = {"Content-Type": f'multipart/form-data; boundary="{boundary}"'}
    assert client.post(ROUTE, **request).status_code == 200


def test_boundary_inside_the_file_ends_it(client: httpx2.Client) -> None:
    cut = WAV[:1000] + b"\r\n--edge--\r\n" + WAV[1000:]
    assert send(client, part("file", cut, "a.wav")).status_code == 200


def test_preamble_and_epilogue_are_no_parts(client: httpx2.Client) -> None:
    request = form(FILE)
    request["content"] = request["content"] + b"epilogue" * 1000
    assert client.post(ROUTE, **request).status_code == 200
    request["content"] = b"preamble\r\n" + request["content"]
    assert client.post(ROUTE, **request).status_code in (200, 400)


def test_transfer_encoding_of_a_part_is_ignored(client: httpx2.Client) -> None:
    item = raw_part(
        'form-data; name="file"; filename="a.wav"\r\nContent-Transfer-Encoding: base64', WAV
    )
    assert send(client, item).status_code == 200
