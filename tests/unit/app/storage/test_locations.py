from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.storage import LocalStore, open_store
from app.storage.s3 import S3Location


def test_a_bucket_alone_is_on_aws() -> None:
    assert S3Location.parse("s3://recordings") == S3Location(bucket="recordings")


def test_a_server_of_one_s_own_is_addressed_by_path() -> None:
    found = S3Location.parse("s3://b-1/a/b/?endpoint=http://minio:9000&region=eu-1")
    assert found == S3Location(
        bucket="b-1",
        prefix="a/b/",
        endpoint="http://minio:9000",
        region="eu-1",
        addressing="path",
    )


def test_addressing_can_be_set() -> None:
    assert S3Location.parse("s3://b?endpoint=https://x&addressing=virtual").addressing == "virtual"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3:///prefix", "no bucket"),
        ("s3://b?endpiont=http://x", "unknown option endpiont"),
        ("s3://b?addressing=dns", "addressing 'dns' is not one of auto, path, virtual"),
    ],
)
def test_a_wrong_location_is_named(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        S3Location.parse(url)


def test_an_unknown_scheme_is_refused_without_showing_the_url(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="storage_url is not supported") as caught:
        open_store("gs://user:secret@bucket", tmp_path)
    assert "secret" not in str(caught.value)


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    store = open_store("", tmp_path / "blobs")
    assert isinstance(store, LocalStore)
    store.check()
    (tmp_path / "blobs" / "incoming").rmdir()
    with pytest.raises(RuntimeError, match="is gone or may not be written"):
        store.check()


def test_the_front_door_does_not_load_boto3() -> None:
    code = "import sys, app.api.main; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
