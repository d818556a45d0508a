"""Recordings in S3, for the archive's command and for the lines of a batch."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from app.archive.finding import find
from app.archive.folders import Rules
from app.archive.items import Item, Unreadable
from app.archive.objects import ObjectSource
from app.errors import BadRequest
from app.jobs import sources
from app.settings import Settings
from app.storage import open_store
from app.storage.s3 import S3Location, S3Store
from tests import engines
from tests.engines import S3Server


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with engines.moto() as server, engines.environment(server.env):
        yield server


def wav(frames: int = 8_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(frames, np.float32), 16_000, format="WAV")
    return file.getvalue()


@pytest.fixture
def place(moto: S3Server, tmp_path: Path) -> str:
    """A prefix with recordings below it, and other things."""
    url = moto.url()
    store = open_store(url, tmp_path)
    for name, data in {
        "a.wav": wav(),
        "deep/er/b.bin": wav(16_000),
        "broken.wav": b"nothing",
        "notes.txt": b"hello",
        ".hidden.wav": wav(),
        "empty.wav": b"",
    }.items():
        store.put(name, io.BytesIO(data), content_type="audio/wav")
    return url


def found(url: str) -> dict[str, Item]:
    items = find([url], Rules(), max_bytes=1 << 20)
    return {item.id.rpartition("/")[2].partition("?")[0]: item for item in items}


def test_everything_below_a_prefix_is_mentioned(place: str) -> None:
    items = found(place)
    told = {
        name: item.problem.reason if item.problem else (str(item.name), item.seconds)
        for name, item in items.items()
    }
    assert told == {
        "a.wav": ("a.wav", 0.5),
        "b.bin": ("deep/er/b.bin", 1.0),
        "broken.wav": ("broken.wav", None),
        "notes.txt": "not a recording",
        ".hidden.wav": "hidden",
        "empty.wav": ("empty.wav", None),
    }
    assert items["a.wav"].source is not None
    with items["a.wav"].source.open() as file:
        assert file.read() == wav()


def test_a_single_object_and_one_that_is_not_there(place: str) -> None:
    base, _, query = place.partition("?")
    (item,) = found(f"{base}/a.wav?{query}").values()
    assert (str(item.name), item.seconds) == ("a.wav", 0.5)
    (missing,) = found(f"{base}/none.wav?{query}").values()
    assert missing.problem is not None
    assert missing.problem.reason == "no such object"


def test_an_object_that_cannot_be_read_hurts_no_other(moto: S3Server, place: str) -> None:
    location = S3Location.parse(place)
    for name in ("a//b.wav", "./c.wav"):  # names that S3 has and a file system has not
        moto.client().put_object(
            Bucket=location.bucket, Key=location.prefix + name, Body=wav(), ContentType="audio/wav"
        )
    items = [item for item in find([place], Rules(), max_bytes=1 << 20) if item.problem]
    told = {item.id.removeprefix(f"s3://{location.bucket}/{location.prefix}") for item in items}
    assert told == {"notes.txt", ".hidden.wav", "a//b.wav", "./c.wav"}


def test_an_object_that_is_gone_when_its_turn_comes(moto: S3Server, place: str) -> None:
    item, location = found(place)["a.wav"], S3Location.parse(place)
    assert item.source is not None
    moto.client().delete_object(Bucket=location.bucket, Key=f"{location.prefix}a.wav")
    with pytest.raises(FileNotFoundError), item.source.open():
        pass
    with engines.moto() as other, engines.environment(other.env):
        store = S3Store(S3Location.parse(other.url()))
    with pytest.raises(Unreadable, match="cannot read"), ObjectSource(store, "a.wav").open():
        pass


def test_a_bucket_that_is_not_there(moto: S3Server) -> None:
    (item,) = found(moto.url(bucket="nobody")).values()
    assert item.problem is not None
    assert "nobody" in item.problem.reason or "NoSuchBucket" in item.problem.reason


def opened(settings: Settings, url: str) -> bytes:
    services = SimpleNamespace(settings=settings)
    with sources.opened(services, url, owner="", check=lambda: None) as upload:  # type: ignore[arg-type]  # nothing else of it is read
        data = upload.file.read()
        assert len(data) == upload.size
        return data


def test_a_line_reads_only_what_is_opened(place: str) -> None:
    base, _, _ = place.partition("?")
    settings = Settings(source_s3=f"s3://other/place,{place}")
    assert opened(settings, f"{base}/a.wav") == wav()
    for url in (f"{base}x/a.wav", f"{base}/", "s3://tests/else.wav"):
        with pytest.raises(BadRequest, match="not opened here"):
            opened(settings, url)
    for url in (f"{base}/none.wav", f"{base}/../escape.wav"):
        with pytest.raises(BadRequest):
            opened(settings, url)
    with pytest.raises(BadRequest, match="longer than 10 bytes"):
        opened(settings.with_changes(batch_max_bytes=10), f"{base}/a.wav")
