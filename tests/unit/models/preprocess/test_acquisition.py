"""Section 5.1: the bytes of chat audio parts."""

from __future__ import annotations

import base64
from contextlib import contextmanager

import pytest

from models.preprocess.acquisition import (
    MAX_BYTES,
    AcquisitionError,
    AudioPart,
    Download,
    acquire,
    read_file,
)
from models.preprocess.errors import WaveformError


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def part(data, format_="wav"):
    return AudioPart(data=data, format=format_)


def refusal(*parts, **options) -> str:
    with pytest.raises(AcquisitionError) as caught:
        acquire(parts, **options)
    return str(caught.value)


def server(*chunks, length=None):
    opened = []

    @contextmanager
    def fetch(url):
        opened.append(url)
        yield Download(length=length, chunks=iter(chunks))
        opened.append("closed")

    fetch.opened = opened
    return fetch


@pytest.fixture
def media(tmp_path):
    root = tmp_path / "media"
    root.mkdir()
    (root / "clip.wav").write_bytes(b"file")
    (root / "a b.wav").write_bytes(b"space")
    (tmp_path / "secret.wav").write_bytes(b"secret")
    (root / "link.wav").symlink_to(tmp_path / "secret.wav")
    return root


def test_5_1_at_most_sixteen_parts():
    one = part(b64(b"x"))
    assert len(acquire([one] * 16)) == 16
    assert refusal(*[one] * 17) == "too many audio inputs: 17, maximum 16"


def test_5_1_ceiling():
    assert MAX_BYTES == 524_288_000


@pytest.mark.parametrize(
    "name", ["wav", "wave", "x-wav", "mp3", "mpeg", "mpga", "flac", "WAV", "Mp3"]
)
def test_5_1_formats(name):
    assert acquire([part(b64(b"x"), name)])[0].data == b"x"


@pytest.mark.parametrize("name", ["ogg", "", "wav ", "m4a"])
def test_5_1_other_formats(name):
    text = f"audio clip 1 uses unsupported format {name}; only wav is supported"
    assert refusal(part(b64(b"x")), part(b64(b"x"), name)) == text


@pytest.mark.parametrize(
    ("data", "kind", "found"),
    [
        ("data:audio/wav;base64," + b64(b"uri"), "data_uri", b"uri"),
        ("DATA:audio/mpeg;codecs=x;base64," + b64(b"uri"), "data_uri", b"uri"),
        (b64(b"inline"), "server_inline", b"inline"),
        ("http://host/a.wav", "server_url", b"url"),
        ("https://host/a.wav", "server_url", b"url"),
    ],
)
def test_5_1_sources(data, kind, found):
    (clip,) = acquire([part(data)], fetch=server(b"u", b"rl"))
    assert (clip.kind, clip.data, clip.placeholder_ordinal) == (kind, found, 1)


@pytest.mark.parametrize(
    "form", ["{0}/clip.wav", "file://{0}/clip.wav", "clip.wav", "file://{0}/a%20b.wav"]
)
def test_5_1_files_under_the_media_root(media, form):
    (clip,) = acquire([part(form.format(media))], media_root=media)
    assert clip.kind == "server_file"
    assert clip.data in (b"file", b"space")


@pytest.mark.parametrize(
    "form", ["file://{0}/../secret.wav", "file://{0}/link.wav", "file:///etc/hostname"]
)
def test_5_1_nothing_outside_the_media_root(media, form):
    text = refusal(part(form.format(media)), media_root=media)
    assert text == "audio clip 0 acquisition from file failed: outside the media path"


def test_5_1_bare_paths_outside_the_media_root_are_no_files(media):
    for form in ("../secret.wav", "link.wav", str(media.parent / "secret.wav")):
        text = refusal(part(form), media_root=media)
        assert text.startswith("audio clip 0 acquisition from inline base64 failed: invalid base64")


def test_5_1_files_need_a_media_root(media):
    text = "audio clip 0 acquisition from file failed: no media path is set"
    assert refusal(part(f"file://{media}/clip.wav")) == text
    text = "audio clip 0 acquisition from file failed: no such file"
    assert refusal(part(f"file://{media}/none.wav"), media_root=media) == text
    assert refusal(part(f"file://{media}"), media_root=media) == text


def test_5_1_base64_goes_on_working_with_a_media_root(media):
    assert acquire([part(b64(b"inline" * 900))], media_root=media)[0].kind == "server_inline"


def test_5_1_urls_need_a_fetcher():
    text = "audio clip 0 acquisition from URL failed: URLs are not enabled"
    assert refusal(part("https://host/a")) == text


def test_5_1_failures_of_a_fetcher_are_named():
    def fetch(url):
        raise ConnectionRefusedError(111, "Connection refused")

    text = "audio clip 0 acquisition from URL failed: Connection refused"
    assert refusal(part("https://host/a"), fetch=fetch) == text


@pytest.mark.parametrize("form", ["{0}", "data:audio/wav;base64,{0}"])
def test_5_1_base64_is_refused_by_its_length(form):
    kind = form.format("A" * 16)
    assert acquire([part(form.format("A" * 12))], max_bytes=9)
    text = "audio clip 0 base64 input is too large: 16 encoded characters, maximum 12"
    assert refusal(part(kind), max_bytes=9) == text
    text = "audio clip 0 base64 input is too large: 16 encoded characters, maximum 16"
    assert acquire([part(form.format("A" * 16))], max_bytes=12)
    assert refusal(part(form.format("A" * 16)), max_bytes=11) == (
        "audio clip 0 exceeds the encoded byte limit: 12 bytes, maximum 11"
    )


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("!!!!", "inline base64"),
        ("data:audio/wav;base64,A", "data URI"),
        ("\u00e4", "inline base64"),
    ],
)
def test_5_1_broken_base64(data, name):
    text = f"audio clip 0 acquisition from {name} failed: invalid base64: "
    assert refusal(part(data)).startswith(text)


@pytest.mark.parametrize("data", ["", "data:audio/wav;base64,", "http://host/a", "file:///empty"])
def test_5_1_empty_payloads(tmp_path, data):
    (tmp_path / "empty").write_bytes(b"")
    data = data.replace("/empty", f"{tmp_path}/empty")
    text = "audio clip 0 resolved to an empty payload"
    assert refusal(part(data), fetch=server(), media_root=tmp_path) == text


def test_5_1_each_source_has_what_is_left_of_the_request():
    five = part(b64(b"12345"))
    assert len(acquire([five, five], max_bytes=10)) == 2
    text = "audio clip 1 base64 input is too large: 8 encoded characters, maximum 4"
    assert refusal(five, five, max_bytes=8) == text
    text = "audio request exceeds the aggregate encoded byte limit: 10 bytes, maximum 9"
    assert refusal(five, five, max_bytes=9) == text


def test_5_1_a_content_length_is_refused_before_reading():
    def unread():
        raise AssertionError
        yield b""

    @contextmanager
    def fetch(_url):
        yield Download(length=11, chunks=unread())

    text = "audio clip 0 exceeds the encoded byte limit: 11 bytes, maximum 10"
    assert refusal(part("https://host/a"), fetch=fetch, max_bytes=10) == text
    text = "audio request exceeds the aggregate encoded byte limit: 16 bytes, maximum 15"
    parts = part(b64(b"12345")), part("https://host/a")
    assert refusal(*parts, fetch=fetch, max_bytes=15) == text


def test_5_1_a_lying_url_is_refused_at_the_chunk_that_is_too_much():
    text = "audio clip 0 exceeds the encoded byte limit: 12 bytes, maximum 10"
    fetch = server(b"123456", b"123456", b"never read", length=3)
    assert refusal(part("https://host/a"), fetch=fetch, max_bytes=10) == text


def test_5_1_files_are_refused_by_their_size(media):
    text = "audio clip 0 exceeds the encoded byte limit: 4 bytes, maximum 3"
    assert refusal(part("clip.wav"), media_root=media, max_bytes=3) == text


def test_5_1_cancellation_says_how_far_it_came(media, countdown):
    for left, done in enumerate((0, 0, 3, 6)):
        fetch = server(b"123", b"456")
        text = f"audio clip 0 acquisition from URL was cancelled after {done} bytes"
        assert refusal(part("https://host/a"), fetch=fetch, cancelled=countdown(left)) == text
        # The reader leaves the connection's context, whatever happens.
        assert fetch.opened == ["https://host/a"]
    text = "audio clip 0 acquisition from file was cancelled after 0 bytes"
    assert refusal(part("clip.wav"), media_root=media, cancelled=countdown(0)) == text


def test_5_1_one_bad_part_fails_the_request():
    assert refusal(part(b64(b"good")), part("!")).startswith("audio clip 1 acquisition from")


def test_5_1_command_line_files_are_capped_by_chunk(tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(bytes(200_000))
    assert len(read_file(path, clip=0, max_bytes=200_000)) == 200_000
    with pytest.raises(WaveformError) as caught:
        read_file(path, clip=0, max_bytes=100_000)
    text = "audio encoded bytes per clip limit exceeded: actual 131072, maximum 100000"
    assert str(caught.value) == text
