"""A blob store in an S3 bucket: AWS, MinIO, SeaweedFS, R2. Knows nothing of any one server.

``s3://bucket/prefix?endpoint=http://host:port&region=…&addressing=path&public=https://…``;
credentials come by boto3's usual chain (environment, profile, instance role). A multipart upload
that fails is aborted, so a blob is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, Self, cast
from urllib.parse import parse_qsl, urlsplit

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from app.storage.base import ListedBlob, StorageError, StoredBlob

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CHUNK = 1 << 20  # bytes hashed at a time
SPOOL_BYTES = 32 << 20  # of a blob kept in memory before it goes to a temporary file
TRANSFER = TransferConfig(multipart_threshold=16 << 20, multipart_chunksize=16 << 20)
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 30, 3  # of each call; boto3 backs off between them
MISSING = ("404", "NoSuchKey", "NoSuchBucket")
REFUSED = ("401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")

Addressing = Literal["auto", "path", "virtual"]
ADDRESSING: tuple[Addressing, ...] = ("auto", "path", "virtual")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Location:
    bucket: str
    prefix: str = ""
    """Empty, or with a slash at its end."""
    endpoint: str | None = None
    """None: AWS."""
    region: str | None = None
    addressing: Addressing = "auto"
    public: str | None = None
    """The endpoint as clients outside reach it, for presigned addresses."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError that names what is wrong."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        unknown = set(options) - {"endpoint", "region", "addressing", "public"}
        if parts.scheme != "s3" or not parts.hostname or unknown:
            reason = f"unknown option {', '.join(sorted(unknown))}" if unknown else "no bucket"
            raise ValueError(f"storage_url: {reason}; it reads s3://bucket/prefix?endpoint=…")
        endpoint, prefix = options.get("endpoint"), parts.path.strip("/")
        return cls(
            bucket=parts.netloc,
            prefix=f"{prefix}/" if prefix else "",
            endpoint=endpoint,
            region=options.get("region"),
            addressing=_addressing(options.get("addressing") or ("path" if endpoint else "auto")),
            public=options.get("public"),
        )


def _addressing(value: str) -> Addressing:
    for known in ADDRESSING:
        if value == known:
            return known
    raise ValueError(f"storage_url: addressing {value!r} is not one of {', '.join(ADDRESSING)}")


class S3Store:
    def __init__(self, location: S3Location) -> None:
        self._location = location
        self._client = _client(location, location.endpoint)
        public = location.public
        self._signer = _client(location, public) if public else self._client

    def check(self) -> None:
        """Raise StorageError, with what to do, unless the bucket is there and may be used."""
        bucket, where = self._location.bucket, self._location.endpoint or "AWS"
        try:
            self._client.head_bucket(Bucket=bucket)
        except ClientError as error:
            code = _code(error)
            if code in MISSING:
                raise StorageError(f"there is no bucket {bucket!r} at {where}: make it") from error
            if code in REFUSED:
                raise StorageError(
                    f"{where} refuses these credentials for bucket {bucket!r}: "
                    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
                ) from error
            raise StorageError(f"bucket {bucket!r} at {where}: {code}") from error
        except BotoCoreError as error:
            raise StorageError(f"bucket {bucket!r} at {where}: {error}") from error

    def put(
        self,
        key: str,
        file: BinaryIO,
        *,
        content_type: str,
        durable: bool = True,  # noqa: ARG002 - part of BlobStore; here every blob is
    ) -> StoredBlob:
        start = file.tell()
        digest, size = hashlib.sha256(), 0
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
        file.seek(start)
        with _translated(f"cannot store {key}"):
            self._client.upload_fileobj(
                cast("BinaryIO", _Lent(file)),
                self._location.bucket,
                self._name(key),
                ExtraArgs={"ContentType": content_type},
                Config=TRANSFER,
            )
        return StoredBlob(key=key, size=size, sha256=digest.hexdigest())

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            file = cast("BinaryIO", spool)
            self._download(key, file)
            file.seek(0)
            yield file

    def _download(self, key: str, file: BinaryIO) -> None:
        bucket, name = self._location.bucket, self._name(key)
        with _translated(f"cannot read {key}"):
            try:
                self._client.download_fileobj(bucket, name, file, Config=TRANSFER)
            except ClientError as error:
                if _code(error) not in MISSING:
                    raise
                self.check()  # a bucket that is gone is not the same as a blob that is gone
                raise FileNotFoundError(key) from error

    def head(self, key: str, count: int) -> bytes:
        """The first bytes of a blob, at most so many."""
        with _translated(f"cannot read {key}"):
            found = self._client.get_object(
                Bucket=self._location.bucket, Key=self._name(key), Range=f"bytes=0-{count - 1}"
            )
            return found["Body"].read()

    def delete(self, key: str) -> None:
        with _translated(f"cannot delete {key}"):
            self._client.delete_object(Bucket=self._location.bucket, Key=self._name(key))

    def list(self, prefix: str) -> Iterator[ListedBlob]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._location.bucket, Prefix=self._location.prefix + prefix
        )
        with _translated(f"cannot list {prefix}"):
            for page in pages:
                for item in page.get("Contents", []):
                    key = item["Key"].removeprefix(self._location.prefix)
                    yield ListedBlob(key=key, modified_at=item["LastModified"], size=item["Size"])

    def url(
        self, key: str, *, seconds: int, content_type: str = "", disposition: str = ""
    ) -> str | None:
        wanted = {
            "Bucket": self._location.bucket,
            "Key": self._name(key),
            "ResponseContentType": content_type,
            "ResponseContentDisposition": disposition,
        }
        given = {name: value for name, value in wanted.items() if value}
        with _translated(f"cannot sign {key}"):
            return self._signer.generate_presigned_url(
                "get_object", Params=given, ExpiresIn=seconds
            )

    def _name(self, key: str) -> str:
        if not key or any(part in ("", ".", "..") for part in key.split("/")):
            raise ValueError(f"blob key {key!r} leaves the store")
        return self._location.prefix + key


class _Lent:
    """A file that boto3 may read but not close: it belongs to the caller."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def close(self) -> None:
        pass


def _client(location: S3Location, endpoint: str | None) -> S3Client:
    config = Config(
        signature_version="s3v4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": location.addressing},
        # Other servers than AWS choke on its newer checksum trailers. Nothing is lost: a body sent
        # in the clear is signed with its SHA-256, and TLS guards any other.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    # A server of one's own has no regions, but a signature must name one.
    region = location.region or ("us-east-1" if endpoint else None)
    session = boto3.session.Session()  # the default one keeps the first credentials it found
    return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)


def _code(error: ClientError) -> str:
    return error.response["Error"]["Code"]


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise StorageError(f"{what}: {_code(error)}") from error
    except (BotoCoreError, Boto3Error) as error:
        raise StorageError(f"{what}: {error}") from error
