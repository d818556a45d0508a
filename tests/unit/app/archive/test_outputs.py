from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

import pytest

from app.archive.items import Item, Status
from app.archive.outputs import Layout, Names, Target, paths, require_writable, shown, writing
from app.archive.report import Entry


def item(name: str, home: Path | None = None) -> Item:
    return Item(id=name, name=PurePosixPath(name), home=home)


def stems(items: list[Item], target: Target, **entries: Entry) -> list[str]:
    names = Names(target, items, entries)
    return [str(names.stem(one)) for one in items]


MIRROR = Target(out=Path("/out"), layout=Layout.MIRROR)


def test_mirror_and_adjacent() -> None:
    one = item("talks/a.wav", Path("/in/talks"))
    assert stems([one], MIRROR) == ["/out/talks/a"]
    assert stems([one], Target(out=None, layout=Layout.ADJACENT)) == ["/in/talks/a"]


def test_what_has_no_place_beside_it() -> None:
    assert stems([item("a.wav")], Target(out=None, layout=Layout.ADJACENT)) == ["None"]


def test_files_of_one_name_keep_apart_in_any_order() -> None:
    items = [item("a.wav"), item("A.mp3"), item("b.wav"), item("x.tar"), item("a.wav")]
    assert stems(items, MIRROR) == [
        "/out/a.wav",
        "/out/A.mp3",
        "/out/b",
        "/out/x",
        "/out/a.wav",
    ]
    twice = [item("a.wav"), Item(id="other", name=PurePosixPath("a.wav"))]
    assert stems(twice, MIRROR) == ["/out/a.wav", "/out/a.wav-2"]


def test_a_name_once_given_stays_and_is_not_given_again() -> None:
    known = Entry(id="a.wav", status=Status.DONE, stem="/out/a")
    names = Names(MIRROR, items := [item("a.wav"), item("a.mp3")], {"a.wav": known})
    assert [str(names.stem(one)) for one in items] == ["/out/a", "/out/a.mp3"]


def test_suffixes_are_added_to_names_with_dots() -> None:
    assert paths(Path("/o/v1.2"), ["txt", "srt"]) == {
        "txt": Path("/o/v1.2.txt"),
        "srt": Path("/o/v1.2.srt"),
    }


def test_a_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    with writing(path) as file:
        file.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), writing(path) as file:
        file.write(b"two")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="Not a directory"):
        require_writable(tmp_path / "file" / "sub" / "a")


def test_a_name_that_is_not_utf8_is_shown_with_escapes() -> None:
    assert shown(os.fsdecode(b"caf\xe9.wav")) == "caf\\udce9.wav"


def test_a_name_cannot_command_the_terminal() -> None:
    assert shown("a\nb\x1b[2J\udce9 é.wav") == "a\\nb\\x1b[2J\\udce9 é.wav"
