from __future__ import annotations

import os
from pathlib import Path

import pytest


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_content_decides_and_everything_is_mentioned(tmp_path: Path, wav, found, told) -> None:
    write(tmp_path / "a.wav", wav)
    write(tmp_path / "deep" / "er" / "b.txt", wav)
    write(tmp_path / "broken.wav", b"nothing")
    write(tmp_path / "notes.txt", b"\xff\xfeN\0o\0")
    write(tmp_path / ".hidden.wav", wav)
    write(tmp_path / ".cache" / "c.wav", wav)
    os.mkfifo(tmp_path / "pipe.wav")
    items = found(tmp_path)
    assert told(items) == {
        "a.wav": "a.wav",
        "b.txt": "deep/er/b.txt",
        "broken.wav": "broken.wav",  # the service says what is wrong with it
        "notes.txt": "not a recording",
        ".hidden.wav": "hidden",
        ".cache": "hidden",
        "pipe.wav": "not a regular file",
    }
    assert {item.id: item.seconds for item in items}[str(tmp_path / "a.wav")] == 0.5


def test_links_in_circles_end(tmp_path: Path, wav, found, told) -> None:
    write(tmp_path / "in" / "a.wav", wav)
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    (tmp_path / "in" / "self.wav").symlink_to("self.wav")
    (tmp_path / "in" / "nowhere.wav").symlink_to("missing.wav")
    (tmp_path / "in" / "same.wav").symlink_to("a.wav")
    outcome = told(found(tmp_path / "in"))
    assert outcome["a.wav"] == "a.wav"
    assert outcome["same.wav"] == "same.wav"
    assert outcome["up"] == "a link to a folder, which may lead in a circle"
    assert outcome["self.wav"] == "cannot be read: Too many levels of symbolic links"
    assert outcome["nowhere.wav"] == "cannot be read: No such file or directory"


def test_a_name_that_is_not_utf8(tmp_path: Path, wav, found) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.wav"
    with open(raw, "wb") as file:  # noqa: PTH123 - a Path has no bytes
        file.write(wav)
    (item,) = found(tmp_path)
    assert item.problem is None
    assert os.fsencode(item.id) == raw


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({"recursive": False}, ["a.wav", "b.flac"]),
        ({"pattern": "*.wav"}, ["a.wav", "sub/c.wav"]),
        ({}, ["a.wav", "b.flac", "sub/c.wav"]),
    ],
)
def test_rules(tmp_path: Path, wav, found, rules, names) -> None:
    for name in ("a.wav", "b.flac", "sub/c.wav"):
        write(tmp_path / name, wav)
    assert [str(item.name) for item in found(tmp_path, **rules)] == names


def test_files_of_earlier_runs_are_not_mentioned(tmp_path: Path, wav, found) -> None:
    write(tmp_path / "a.wav", wav)
    report = write(tmp_path / "report.jsonl", b"")
    assert len(found(tmp_path, ignored=frozenset({str(report)}))) == 1


def test_patterns_keep_the_folders_behind_their_fixed_part(tmp_path: Path, wav, found) -> None:
    for name in ("x/a.wav", "y/z/b.wav"):
        write(tmp_path / name, wav)
    items = found(f"{tmp_path}/**/*.wav")
    assert [str(item.name) for item in items] == ["x/a.wav", "y/z/b.wav"]
    (nothing,) = found(f"{tmp_path}/*.mp3")
    assert nothing.problem.reason == "nothing matches"


def test_several_folders_keep_apart(tmp_path: Path, wav, found) -> None:
    for name in ("x/a.wav", "y/a.wav"):
        write(tmp_path / name, wav)
    items = found(tmp_path / "x", tmp_path / "y")
    assert [str(item.name) for item in items] == ["x/a.wav", "y/a.wav"]


def test_a_file_that_was_named_is_taken_whatever_it_is(tmp_path: Path, found) -> None:
    (item,) = found(write(tmp_path / "notes.txt", b"hello"))
    assert item.problem is None
    (missing,) = found(tmp_path / "none.wav")
    assert missing.problem.reason == "no such file"


def test_the_same_thing_named_twice_is_two_items(tmp_path: Path, wav, found) -> None:
    path = write(tmp_path / "a.wav", wav)
    assert [item.id for item in found(path, path)] == [str(path), f"{path}#2"]
