"""A Valkey outside: password, TLS, key prefix, and what happens when it goes away."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread
import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.broker import Announcer, BrokerDown, count_messages, make_celery, send
from app.clock import now
from app.jobs.wait import Doorbell
from app.states import Kind
from tests import engines

QUEUE = "tts.bulk"
PROXY = Path(engines.__file__).with_name("tls_proxy.py")


def ring(url: str, prefix: str = "p:") -> int:
    """Send one message by Celery; how many there are now."""
    celery = make_celery(url, prefix)
    try:
        send(celery, "job_1", kind=Kind.SPEECH, queue=QUEUE)
        return count_messages(celery, QUEUE)
    finally:
        celery.close()


async def hear(url: str) -> None:
    """Returns when a publish has gone all the way round."""
    bell, announcer = Doorbell(url, "p:"), Announcer(url, "p:")
    listening = asyncio.create_task(bell.listen())
    try:
        with bell.bell("job_1") as event:
            while not event.is_set():
                await anyio.to_thread.run_sync(announcer.announce, "job_1")
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), 0.05)
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        announcer.close()
        await asyncio.sleep(0)  # in which the closed connection closes its socket


def test_a_password(tmp_path: Path) -> None:
    with engines.valkey(tmp_path, password="s3cret") as url:  # noqa: S106 - of this test's server
        assert ring(url) == 1
        asyncio.run(hear(url))
        with pytest.raises(BrokerDown) as caught:
            ring(url.replace("s3cret", "wrong-one"))
        assert "wrong-one" not in str(caught.value)


def test_installations_with_different_prefixes_do_not_meet(valkey: str) -> None:
    assert ring(valkey, "one:") == 1
    assert ring(valkey, "two:") == 1
    with redis.Redis.from_url(valkey) as client:
        keys = {key.decode() for key in client.scan_iter("*")}
    assert {"one:tts.bulk", "two:tts.bulk"} <= keys


def test_a_restart_is_survived(tmp_path: Path) -> None:
    port = engines.free_port()
    url = f"redis://127.0.0.1:{port}/0"
    celery, announcer = make_celery(url, "p:"), Announcer(url, "p:")
    with engines.valkey(tmp_path, port=port):
        send(celery, "job_1", kind=Kind.SPEECH, queue=QUEUE)
    with pytest.raises(BrokerDown):
        send(celery, "job_2", kind=Kind.SPEECH, queue=QUEUE)
    announcer.announce("job_2")  # a hint that nobody hears is not an error
    with engines.valkey(tmp_path, port=port):
        send(celery, "job_3", kind=Kind.SPEECH, queue=QUEUE)
        assert count_messages(celery, QUEUE) == 2
        announcer.ping()
    celery.close()
    announcer.close()


@pytest.fixture
def tls(valkey: str, tmp_path: Path) -> Iterator[str]:
    """The session's Valkey behind TLS, as a hosted one is."""
    certificate, key = _certificate(tmp_path)
    inner, port = urlsplit(valkey).port, engines.free_port()
    url = f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={certificate}"

    def answers() -> bool:
        with suppress(redis.RedisError), redis.Redis.from_url(url) as client:
            return bool(client.ping())
        return False

    command = [sys.executable, str(PROXY), str(certificate), str(key), str(port), str(inner)]
    with engines.process(command, tmp_path / "proxy.log", answers, stop=signal.SIGKILL):
        yield url


def test_tls(tls: str) -> None:
    assert ring(tls, "tls:") == 1
    announcer = Announcer(tls, "tls:")
    announcer.ping()
    announcer.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(tls: str) -> None:
    with pytest.raises(BrokerDown):
        ring(tls.partition("?")[0])


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "valkey")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now() - timedelta(hours=1))
        .not_valid_after(now() + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "cert.pem").write_bytes(certificate.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "key.pem").write_bytes(secret)
    return directory / "cert.pem", directory / "key.pem"
