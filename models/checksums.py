"""SHA-256 of files, and the record of them (SHA256SUMS) that a pull leaves in a checkpoint.

Knows files only: not what is in them, nor what the catalogue expects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from models.base import ModelError

RECORD = "SHA256SUMS"
"""In the format of the sha256sum program, so that ``sha256sum -c`` checks a checkpoint too."""


class WrongHash(ModelError):
    """A file is not what was expected."""

    def __init__(self, name: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"{name} is not the expected file: sha256 {expected} expected, {found} found"
        )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: Path, expected: str, *, name: str | None = None) -> None:
    """Raise WrongHash unless the file at path has the expected hash."""
    if (found := sha256(path)) != expected:
        raise WrongHash(name or path.name, expected=expected, found=found)


def checkpoint_files(directory: Path) -> dict[str, Path]:
    """Every file under directory but the record and hidden ones, by its name relative to it."""
    relative = {
        path.relative_to(directory): path for path in directory.rglob("*") if path.is_file()
    }
    return {
        name.as_posix(): path
        for name, path in sorted(relative.items())
        if name.as_posix() != RECORD and not any(part.startswith(".") for part in name.parts)
    }


def write_record(directory: Path) -> None:
    lines = [f"{sha256(path)}  {name}\n" for name, path in checkpoint_files(directory).items()]
    (directory / RECORD).write_text("".join(lines), encoding="utf-8")


def read_record(directory: Path) -> Mapping[str, str]:
    """File name to sha256; FileNotFoundError where no pull wrote a record."""
    text = (directory / RECORD).read_text(encoding="utf-8")
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}
