from __future__ import annotations

from pathlib import Path

import pytest

from app import embedded
from app.embedded import EmbeddedValkey, NoServer


def test_the_socket_lies_in_the_directory() -> None:
    valkey = EmbeddedValkey(Path("/data/valkey"))
    assert valkey.url == "redis+socket:///data/valkey/valkey.sock"


def test_a_path_too_long_for_a_socket_gets_a_short_one_of_its_own() -> None:
    one, two = (EmbeddedValkey(Path("/" + "x" * 120) / name) for name in ("a", "b"))
    assert len(str(one.socket)) <= embedded.SOCKET_PATH_BYTES
    assert one.socket != two.socket
    assert one.socket == EmbeddedValkey(one.directory).socket


@pytest.mark.parametrize("character", "?#%")
def test_a_path_that_a_url_would_change_gets_a_short_one_too(character: str) -> None:
    valkey = EmbeddedValkey(Path(f"/data/{character}41"))
    assert character not in valkey.url


def test_the_server_keeps_an_append_only_file_and_opens_no_port(tmp_path: Path) -> None:
    command = EmbeddedValkey(tmp_path / "valkey").command()
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--port"] == "0"
    assert options["--appendonly"] == "yes"
    assert options["--unixsocketperm"] == "700"
    assert (tmp_path / "valkey").stat().st_mode & 0o077 == 0


def test_without_any_server_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nowhere() -> Path:
        raise embedded.ValkeyBinaryNotFoundError

    monkeypatch.setattr(embedded, "get_binary_path", nowhere)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoServer, match="VOXQUEUE_BROKER_URL"):
        EmbeddedValkey(tmp_path).command()
