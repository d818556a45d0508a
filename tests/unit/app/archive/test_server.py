from __future__ import annotations

import socket

import pytest

from app.archive.server import Away, reach


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_wrong_address_is_told_at_once(free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    with pytest.raises(Away, match=f"no service answers at {url}"):
        reach(url)


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(Away, match="no service answers at"):
        reach(url)
