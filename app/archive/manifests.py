"""A manifest: JSON lines or CSV with an ``id``, a ``source`` and options for each recording."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.archive.folders import file_item
from app.archive.items import S3, Item, failed, leads_out

SUFFIXES = (".jsonl", ".ndjson", ".csv")
OPTIONS = ("language", "prompt", "temperature", "max_tokens", "kind")


def manifest_items(path: Path) -> Iterator[Item]:
    """A line that is at fault is that line's item; an id serves once."""
    seen: set[str] = set()
    try:
        for number, line in _lines(path):
            item = _item(path, number, line)
            if item.id in seen:
                item = failed(f"{path}:{number}", f"the id {item.id!r} is used twice")
            seen.add(item.id)
            yield item
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        yield failed(str(path), f"cannot be read: {error}")


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Each with its number from 1; what is no JSON comes as the error that says so."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        if path.suffix == ".csv":
            for row in (rows := csv.DictReader(file)):
                given = {name: value for name, value in row.items() if name and value}
                picked = {name: given.pop(name, None) for name in ("id", "source")}
                yield rows.line_num, {**picked, "options": given}
            return
        for number, text in enumerate(file, 1):
            if text.strip():
                try:
                    yield number, json.loads(text)
                except (ValueError, RecursionError) as error:
                    yield number, error


def _item(path: Path, number: int, line: Any) -> Item:
    where = f"{path}:{number}"
    if not isinstance(line, dict):
        reason = f"not JSON: {line}" if isinstance(line, Exception) else "not a JSON object"
        return failed(where, reason)
    source, id_ = line.get("source"), line.get("id", line.get("source"))
    options = line.get("options") or {}
    if not isinstance(source, str) or not source or not isinstance(id_, str) or not id_:
        return failed(where, "'source' and 'id' must be texts")
    if not isinstance(options, dict) or (unknown := sorted(set(options) - set(OPTIONS))):
        names = ", ".join(unknown) if isinstance(options, dict) else "not an object"
        return failed(where, f"'options': {names}; there are {', '.join(OPTIONS)}")
    name = Path(id_).name if "id" not in line or id_ == source else id_
    if leads_out(name):
        return failed(where, f"the id {id_!r} leads out of the target")
    item = _object(source) if source.startswith(S3) else file_item(path.parent / source)
    given = {key: str(value) for key, value in options.items()}
    return replace(item, id=id_, name=PurePosixPath(name), options=given)


def _object(url: str) -> Item:
    from app.archive.objects import object_item

    return object_item(url)
