from __future__ import annotations

import socket

import pytest

from app.errors import BadRequest
from app.jobs.callbacks import Forbidden, check_url, resolve


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hook",
        "http://localhost:8000/",
        "http://[::1]/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[::]/",
    ],
)
def test_addresses_that_are_not_public_are_refused(url: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_url(url, "")
    assert caught.value.param == "callback_url"
    assert "not a public address" in caught.value.message


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("//example.com/", "scheme"),
        ("http:///path", "host"),
        ("http://user:secret@example.com/", "credentials"),
        ("http://example.com:99999/", "ort"),
        ("http://exa mple.com/", "URL"),
        ("http://example.com/" + "x" * 2000, "URL"),
        ("http://[::1/", "callback_url"),
    ],
)
def test_what_is_no_url_to_post_to_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_url(url, "")
    assert reason in caught.value.message


@pytest.mark.parametrize("url", ["http://93.184.216.34/", "https://[2606:4700::1111]:8443/hook"])
def test_public_addresses_may_be_called(url: str) -> None:
    check_url(url, "")


@pytest.mark.parametrize(
    "allow", ["127.0.0.1", "127.0.0.0/8", "localhost , ::1", "10.0.0.0/8,LOCALHOST"]
)
def test_the_operator_can_allow_hosts_and_networks(allow: str) -> None:
    host = "localhost" if "ocalhost" in allow.lower() else "127.0.0.1"
    check_url(f"http://{host}:9/", allow)


def test_an_allowed_network_covers_no_other_address() -> None:
    with pytest.raises(Forbidden):
        resolve("10.0.0.1", 80, "127.0.0.0/8")


def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(*_: object, **__: object) -> list[tuple]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))
            for address in ("93.184.216.34", "127.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", names)
    with pytest.raises(Forbidden, match=r"127\.0\.0\.1"):
        resolve("rebinding.example", 80, "")


def test_a_name_that_does_not_resolve_yet_is_no_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: object, **__: object) -> list[tuple]:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    check_url("https://later.example/hook", "")
