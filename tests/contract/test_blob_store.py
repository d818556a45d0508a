"""One suite for every blob store: a directory, moto and a real SeaweedFS."""

from __future__ import annotations

import hashlib
import io
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from app.storage import BlobStore, StorageError, open_store
from app.storage import s3 as s3_module
from tests import engines
from tests.engines import S3Server

BIG = 40 << 20  # bytes: three parts of a multipart upload


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with engines.moto() as server:
        yield server


@pytest.fixture(scope="module")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with engines.seaweedfs(tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(params=["moto", "seaweedfs"])
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    server = request.getfixturevalue(request.param)
    with engines.environment(server.env):
        yield server


@pytest.fixture(params=["local", "moto", "seaweedfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "local":
        yield open_store("", tmp_path / "blobs")
        return
    server = request.getfixturevalue(request.param)
    with engines.environment(server.env):
        yield open_store(server.url(), tmp_path)


def put(store: BlobStore, key: str, data: bytes) -> None:
    store.put(key, io.BytesIO(data), content_type="audio/wav")


def read(store: BlobStore, key: str) -> bytes:
    with store.open(key) as file:
        return file.read()


def test_a_new_store_is_usable(store: BlobStore) -> None:
    store.check()


def test_a_blob_comes_back_as_it_was_put_from_the_file_s_position(store: BlobStore) -> None:
    file = io.BytesIO(b"xxhello")
    file.seek(2)
    blob = store.put("in/job_1/source", file, content_type="audio/wav")
    assert (blob.key, blob.size) == ("in/job_1/source", 5)
    assert blob.sha256 == hashlib.sha256(b"hello").hexdigest()
    assert read(store, "in/job_1/source") == b"hello"
    assert not file.closed


def test_an_opened_blob_is_seekable(store: BlobStore) -> None:
    put(store, "k", b"0123456789")
    with store.open("k") as file:
        assert file.seek(-3, io.SEEK_END) == 7
        assert file.read() == b"789"


def test_an_empty_blob(store: BlobStore) -> None:
    put(store, "empty", b"")
    assert read(store, "empty") == b""


def test_put_replaces(store: BlobStore) -> None:
    put(store, "k", b"old and longer")
    put(store, "k", b"new")
    assert read(store, "k") == b"new"


def test_a_missing_blob(store: BlobStore) -> None:
    with pytest.raises(FileNotFoundError), store.open("in/none/source"):
        pass


def test_delete_is_idempotent_and_leaves_the_neighbour(store: BlobStore) -> None:
    put(store, "out/a/1/speech.wav", b"a")
    put(store, "out/a/2/speech.wav", b"b")
    for _ in range(2):
        store.delete("out/a/1/speech.wav")
    with pytest.raises(FileNotFoundError), store.open("out/a/1/speech.wav"):
        pass
    assert read(store, "out/a/2/speech.wav") == b"b"


@pytest.mark.parametrize("key", ["", "../secret", "a/../../secret", "a/./b/../../.."])
def test_a_key_cannot_leave_the_store(store: BlobStore, key: str) -> None:
    with pytest.raises(ValueError, match="leaves the store"):
        put(store, key, b"x")


def test_a_large_blob(store: BlobStore) -> None:
    data = bytes(range(256)) * (BIG // 256)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        blob = store.put("large", file, content_type="audio/wav")
    assert blob.sha256 == hashlib.sha256(data).hexdigest()
    with store.open("large") as found:
        assert hashlib.file_digest(found, "sha256").hexdigest() == blob.sha256


def test_a_file_that_fails_while_it_is_read_leaves_no_blob(store: BlobStore) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 5:
                raise OSError("the disk is gone")
            return super().read(5)

    with pytest.raises((OSError, StorageError)):
        store.put("broken", Broken(b"0123456789"), content_type="audio/wav")
    with pytest.raises(FileNotFoundError), store.open("broken"):
        pass


def test_threads_share_a_store(store: BlobStore) -> None:
    def round_trip(number: int) -> bool:
        data = str(number).encode() * 1000
        put(store, f"t/{number}", data)
        return read(store, f"t/{number}") == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trip, range(32)))


def test_an_address_serves_the_blob(server: S3Server, tmp_path: Path) -> None:
    store = open_store(server.url(), tmp_path)
    put(store, "k", b"bytes")
    url = store.url("k", seconds=60)
    assert url is not None
    answer = httpx2.get(url)
    assert (answer.status_code, answer.content) == (200, b"bytes")
    assert answer.headers["content-type"] == "audio/wav"
    other = {"content_type": "text/plain", "disposition": "attachment; filename=k.txt"}
    answer = httpx2.get(store.url("k", seconds=60, **other) or "")
    assert answer.content == b"bytes"
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"] == "attachment; filename=k.txt"


def test_a_directory_gives_no_address(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/blobs", tmp_path)
    put(store, "k", b"bytes")
    assert store.url("k", seconds=60) is None
    assert (tmp_path / "blobs" / "k").read_bytes() == b"bytes"


def test_an_address_can_name_the_server_as_clients_reach_it(
    server: S3Server, tmp_path: Path
) -> None:
    url = server.url() + "&public=https%3A%2F%2Fblobs.example.org"
    address = open_store(url, tmp_path).url("k", seconds=60)
    assert address is not None
    assert address.startswith("https://blobs.example.org/voxqueue-")


def test_a_missing_bucket_is_named(server: S3Server, tmp_path: Path) -> None:
    store = open_store(server.url("no-such-bucket"), tmp_path)
    with pytest.raises(StorageError, match=r"there is no bucket 'no-such-bucket' at http.*make it"):
        store.check()


def test_a_blob_in_a_missing_bucket_is_a_failure_of_the_store(
    server: S3Server, tmp_path: Path
) -> None:
    store = open_store(server.url("no-such-bucket"), tmp_path)
    with pytest.raises(StorageError), store.open("k"):
        pass


def test_wrong_credentials_are_named(seaweedfs: S3Server, tmp_path: Path) -> None:
    url = seaweedfs.url()
    with engines.environment(seaweedfs.env | {"AWS_SECRET_ACCESS_KEY": "wrong"}):
        store = open_store(url, tmp_path)
        with pytest.raises(StorageError, match=r"refuses these credentials.*AWS_ACCESS_KEY_ID"):
            store.check()
        with pytest.raises(StorageError, match="cannot store k"):
            put(store, "k", b"x")


def test_a_server_that_is_away_is_named(
    moto: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "ATTEMPTS", 1)
    with engines.environment(moto.env):
        store = open_store(f"s3://bucket?endpoint=http://127.0.0.1:{engines.free_port()}", tmp_path)
        with pytest.raises(StorageError, match="Could not connect"):
            store.check()
        with pytest.raises(StorageError, match="cannot store k: Could not connect"):
            put(store, "k", b"x")
        with pytest.raises(StorageError, match="cannot read k"), store.open("k"):
            pass


def test_a_server_that_never_answers_is_given_up(
    moto: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "ATTEMPTS", 1)
    monkeypatch.setattr(s3_module, "READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, engines.environment(moto.env):
        port = silent.getsockname()[1]
        store = open_store(f"s3://bucket?endpoint=http://127.0.0.1:{port}", tmp_path)
        with pytest.raises(StorageError, match=r"[Tt]imeout"):
            put(store, "k", b"x")


def test_blobs_are_listed_below_a_prefix_with_their_age(store: BlobStore) -> None:
    for key in ("in/job_1/source", "out/job_1/1/a.wav", "out/job_1/2/a.wav", "out/job_10/1/a.wav"):
        put(store, key, b"x")
    listed = list(store.list("out/job_1/"))
    assert sorted(blob.key for blob in listed) == ["out/job_1/1/a.wav", "out/job_1/2/a.wav"]
    assert all(abs(datetime.now(UTC) - blob.modified_at) < timedelta(minutes=5) for blob in listed)
    assert list(store.list("out/nobody/")) == []
