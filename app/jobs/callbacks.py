"""Where a callback may go: to public addresses, and to what the operator has allow-listed.

Without this a caller could have the service speak to machines that only it can reach. The same
guard stands at submit, for a prompt answer, and at connect, where it counts: names can change.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from app.errors import BadRequest

Address = IPv4Address | IPv6Address

URL_CHARACTERS = 2000
NAT64 = ip_network("64:ff9b::/96")  # the last 32 bits are an IPv4 address


class Forbidden(ValueError):
    """The address is not public, and not allow-listed."""


def check_url(url: str, allow: str) -> None:
    """Raise BadRequest for a callback that could never be delivered or must not be."""
    try:
        parts = _parsed(url)
        port = parts.port
    except ValueError as error:
        raise BadRequest(f"invalid 'callback_url': {error}", param="callback_url") from None
    try:
        resolve(parts.hostname or "", port or (443 if parts.scheme == "https" else 80), allow)
    except Forbidden as error:
        raise BadRequest(f"'callback_url' is refused: {error}", param="callback_url") from None
    except OSError:
        return  # a name that does not resolve now may do so later; the delivery log will tell


def _parsed(url: str) -> SplitResult:
    if len(url) > URL_CHARACTERS or not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError(f"not a URL of at most {URL_CHARACTERS} ASCII characters")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("its scheme is not http or https")
    if not parts.hostname:
        raise ValueError("it has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it has credentials in it")
    return parts


def resolve(host: str, port: int, allow: str) -> list[str]:
    """Every address of the host, each of which may be spoken to.

    Raises Forbidden when one of them may not, and OSError when the name has none. The resolver
    reads decimal, octal and hexadecimal spellings too, so they are judged by what they mean.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    allowed = [item.strip().lower() for item in allow.split(",") if item.strip()]
    if host.lower() not in allowed:
        for address in addresses:
            if not (_is_public(address) or _is_allowed(address, allowed)):
                raise Forbidden(f"{host} is {address}, which is not a public address")
    return addresses


def _is_public(text: str) -> bool:
    return all(
        address.is_global and not (address.is_multicast or address.is_reserved)
        for address in _meanings(text)
    )


def _meanings(text: str) -> list[Address]:
    """The address, and the IPv4 address that a gateway would make of it."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    inner: list[Address] = [address.sixtofour] if address.sixtofour else []
    inner += address.teredo or ()
    return [address, *inner]


def _is_allowed(text: str, allowed: list[str]) -> bool:
    for item in allowed:
        with suppress(ValueError):  # the item is a host name
            if any(address in ip_network(item, strict=False) for address in _meanings(text)):
                return True
    return False
