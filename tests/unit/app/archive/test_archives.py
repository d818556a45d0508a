"""ZIP and TAR archives, friendly and hostile."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from app.archive.items import Item, Unreadable, spool
from app.archive.tars import tar_items
from app.archive.zips import zip_items


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def make_tar(path: Path, members: dict[str, bytes]) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    data = plain.getvalue()
    if path.suffix in (".gz", ".tgz"):
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


MAKERS = {
    "a.zip": make_zip,
    "a.tar": make_tar,
    "a.tar.gz": make_tar,
    "a.tgz": make_tar,
    "a.tar.zst": make_tar,
}


def read(item: Item) -> bytes:
    with item.source.open() as file:
        return file.read()


@pytest.mark.parametrize("name", MAKERS)
def test_members_are_found_and_read_in_any_order(tmp_path: Path, wav, found, name: str) -> None:
    members = {f"d/{n}.wav": wav + bytes([n]) for n in range(5)}
    items = found(MAKERS[name](tmp_path / name, members))
    assert [str(item.name) for item in items] == list(members)
    assert [item.seconds for item in items] == [0.5] * 5
    assert items[0].home == tmp_path / "a" / "d"
    for number in (0, 1, 4, 2, 2):
        assert read(items[number]) == wav + bytes([number])


@pytest.mark.parametrize("name", MAKERS)
def test_every_member_has_an_outcome(tmp_path: Path, wav, found, told, name: str) -> None:
    members = {
        "good.wav": wav,
        "../evil.wav": wav,
        "/root.wav": wav,
        "x/../../up.wav": wav,
        "readme.txt": b"hello",
        ".hidden.wav": wav,
        "__MACOSX/._a.wav": wav,
        "broken.wav": b"nothing",
        "big.wav": wav * 100,
    }
    outcome = told(found(MAKERS[name](tmp_path / name, members), max_bytes=len(wav)))
    leads_out = "its name leads out of the target"
    assert outcome == {
        "good.wav": "good.wav",
        "evil.wav": leads_out,
        "root.wav": leads_out,
        "up.wav": leads_out,
        "readme.txt": "not a recording",
        ".hidden.wav": "hidden",
        "._a.wav": "hidden",
        "broken.wav": "broken.wav",
        "big.wav": f"it unpacks to more than {len(wav)} bytes",
    }


def test_a_bomb_that_lies_about_its_size_is_stopped(tmp_path: Path, wav, found) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.wav": wav + bytes(10_000_000)})
    data = bytearray(path.read_bytes())
    size = (len(wav) + 10_000_000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(bytes(data).replace(size, len(wav).to_bytes(4, "little")))
    (item,) = found(path)
    assert item.problem.reason.startswith("cannot be unpacked: Bad CRC-32")


def test_a_member_that_never_ends_is_stopped(tmp_path: Path, wav) -> None:
    with pytest.raises(Unreadable, match="more than 1000 bytes"):
        spool(io.BytesIO(wav), max_bytes=1000)


def test_links_and_devices_are_left_alone(tmp_path: Path, found, told) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (("l.wav", tarfile.SYMTYPE), ("d.wav", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("z.wav")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    outcome = told(found(tmp_path / "a.tar", tmp_path / "a.zip"))
    assert set(outcome.values()) == {"a link or a device"}
    assert set(outcome) == {"l.wav", "d.wav", "z.wav"}


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.zst"])
def test_a_damaged_archive_gives_what_came_before(tmp_path: Path, wav, found, name: str) -> None:
    noise = [np.random.default_rng(n).bytes(300_000) for n in range(3)]
    path = make_tar(tmp_path / name, {f"{n}.wav": wav + data for n, data in enumerate(noise)})
    path.write_bytes(path.read_bytes()[:-400])
    *good, last = found(path)
    assert len(good) >= 1
    assert "the archive is damaged after" in last.problem.reason


def test_what_is_no_archive(tmp_path: Path, found) -> None:
    for name in ("a.zip", "a.tar", "a.tar.zst"):
        (tmp_path / name).write_bytes(b"not at all an archive")
        (item,) = found(tmp_path / name)
        assert item.problem


def test_an_encrypted_member_is_named(tmp_path: Path, wav, found) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.wav": wav})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    (item,) = found(path)
    assert item.problem.reason == "encrypted"


def test_a_member_without_a_name_and_damaged_lzma_hurt_no_other(tmp_path: Path) -> None:
    path, data = tmp_path / "a.zip", bytes(range(256)) * 40
    with zipfile.ZipFile(path, "w") as archive:
        nameless = zipfile.ZipInfo("x")
        nameless.filename = ""
        archive.writestr(nameless, data)
        archive.writestr("b.wav", data, compress_type=zipfile.ZIP_LZMA)
        archive.writestr("c.wav", data)
    whole = bytearray(path.read_bytes())
    start = whole.index(b"b.wav") + len("b.wav") + 9  # behind the options of the compression
    whole[start : start + 40] = b"\xff" * 40
    path.write_bytes(whole)
    first, second, third = zip_items(path, prefix="", hidden=False, max_bytes=1 << 20)
    assert first.problem is not None
    assert second.problem is not None
    assert third.problem is None


def test_a_gzip_header_that_is_cut_short_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"\x1f\x8b\x08\x08\0\0\0\0\0\xff")
    (item,) = tar_items(path, prefix="", hidden=False, max_bytes=1 << 20)
    assert item.problem is not None
