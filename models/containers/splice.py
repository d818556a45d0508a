"""A read-only file made of some bytes and a stretch of another file, for decoders.

Lets a decoder see a repaired header before samples that stay where they are.
"""

from __future__ import annotations

import io
from typing import BinaryIO


class Splice:
    """`prefix`, then bytes [start, stop) of `file`."""

    def __init__(self, prefix: bytes, file: BinaryIO, *, start: int, stop: int) -> None:
        self._prefix, self._file, self._start = prefix, file, start
        self._size = len(prefix) + max(0, stop - start)
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, count: int) -> bytes:
        head = self._prefix[self._position : self._position + count]
        rest = min(count, self._size - self._position) - len(head)
        self._position += len(head)
        return head + self._read_file(rest) if rest > 0 else head

    def offset_in_file(self) -> int:
        """Where the position stands in the file itself."""
        return self._start + max(0, self._position - len(self._prefix))

    def _read_file(self, count: int) -> bytes:
        self._file.seek(self.offset_in_file())
        data = self._file.read(count)
        self._position += len(data)
        return data
