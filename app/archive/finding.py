"""From what somebody named to items: which kind of source each PATH is."""

from __future__ import annotations

import glob
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from app.archive.folders import Rules, file_item, folder_items, pattern_items
from app.archive.items import S3, Item, failed
from app.archive.manifests import SUFFIXES, manifest_items
from app.archive.tars import ZSTD_MAGIC, archive_stem, tar_items
from app.archive.zips import zip_items

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")


def find(paths: list[str], rules: Rules, *, max_bytes: int) -> Iterator[Item]:
    """Everything that was named, in order, each item once under an id of its own.

    ``max_bytes``: of a recording from an archive, which may unpack to anything.
    """
    several = len(paths) > 1
    found = (
        item for path in paths for item in _one(path, rules, several=several, max_bytes=max_bytes)
    )
    return _unique(found)


def _one(text: str, rules: Rules, *, several: bool, max_bytes: int) -> Iterator[Item]:
    """Of several, each with contents of its own gets a folder of its own."""
    if text.startswith(S3):
        from app.archive.objects import object_items

        prefix = PurePosixPath(text.partition("?")[0]).name if several else ""
        return object_items(text, prefix=prefix, hidden=rules.hidden)
    path = Path(text)
    try:
        if not path.exists():
            return _missing(text, rules)
        if path.is_dir():
            return folder_items(path, rules, path.resolve().name if several else "")
        return _file(path, rules, several=several, max_bytes=max_bytes)
    except OSError as error:
        return iter([failed(text, f"cannot be read: {error.strerror}")])


def _missing(text: str, rules: Rules) -> Iterator[Item]:
    if glob.has_magic(text):
        return pattern_items(text, rules)
    is_link = Path(text).is_symlink()
    return iter([failed(text, "a link that leads nowhere" if is_link else "no such file")])


def _file(path: Path, rules: Rules, *, several: bool, max_bytes: int) -> Iterator[Item]:
    if path.suffix.lower() in SUFFIXES:
        return manifest_items(path)
    prefix = archive_stem(path) if several else ""
    if path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        return zip_items(path, prefix=prefix, hidden=rules.hidden, max_bytes=max_bytes)
    if _is_tar(path):
        return tar_items(path, prefix=prefix, hidden=rules.hidden, max_bytes=max_bytes)
    return iter([file_item(path)])


def _is_tar(path: Path) -> bool:
    with path.open("rb") as file:
        is_zstd = file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
    return is_zstd or path.name.lower().endswith(TAR_SUFFIXES) or tarfile.is_tarfile(path)


def _unique(items: Iterable[Item]) -> Iterator[Item]:
    seen: Counter[str] = Counter()
    for item in items:
        seen[item.id] += 1
        count = seen[item.id]
        yield item if count == 1 else replace(item, id=f"{item.id}#{count}")
