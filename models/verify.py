"""Whether a pulled checkpoint is still what was pulled, and what the catalogue expects.

Reads every byte. It must not change anything, nor know how to repair it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from models.catalog import CatalogEntry
from models.checksums import RECORD, WrongHash, check, read_record
from models.pull import read_provenance
from models.sources import packages


def differences(directory: Path, entry: CatalogEntry) -> list[str]:
    """In words, each file that is missing or not the expected one; nothing where all is well."""
    try:
        record = read_record(directory)
    except FileNotFoundError:
        return [f"{directory} has no {RECORD}, so no pull wrote it"]
    return [*_against_record(directory, record), *_against_catalogue(directory, record, entry)]


def _against_record(directory: Path, record: Mapping[str, str]) -> Iterator[str]:
    for name, digest in record.items():
        path = directory / name
        try:
            check(path, digest, name=str(path))
        except WrongHash as error:
            yield str(error)
        except OSError as error:
            yield f"{path}: {error.strerror or error}"


def _against_catalogue(
    directory: Path, record: Mapping[str, str], entry: CatalogEntry
) -> Iterator[str]:
    """The hub and a directory give other layouts, so of theirs only the common files are known."""
    provenance = read_provenance(directory)
    for name, file in entry.files.items():
        if provenance.source != packages.SOURCE and not file.every_source:
            continue
        recorded = record.get(name)
        if recorded is None and not provenance.missing:
            yield f"{directory / name} is not in {RECORD}, but the catalogue has it"
        elif recorded is not None and recorded != file.sha256:
            path = str(directory / name)
            yield f"in {RECORD}: {WrongHash(path, expected=file.sha256, found=recorded)}"
