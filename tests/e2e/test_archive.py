"""``voxqueue transcribe`` and ``speak`` on real processes, with the fake model for speed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import tarfile
import wave
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archives import build, clip, report, run, start, texts
from tests.harness import Service, calls, eventually, fake_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("data")
    models = ("--stt-model", str(model), "--tts-model", str(model))
    service = Service(data, *models, VOXQUEUE_SWEEP_SECONDS="0.3")
    yield service
    assert service.stop() == 0


def test_the_same_as_zip_tar_and_manifest_is_answered_from_what_is_there(
    service: Service, model: Path, tmp_path: Path
) -> None:
    files = build(tmp_path / "in", clips=6, seed=2000)
    assert run(service, "transcribe", tmp_path / "in", "--out", tmp_path / "0").returncode == 1
    want, before = texts(tmp_path / "0"), len(calls(model))
    assert len(want) == 6
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "in", ".")
    lines = [json.dumps({"id": name, "source": f"in/{name}"}) for name in files]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for number, source in enumerate(("a.zip", "a.tar.gz", "a.jsonl"), 1):
        out = tmp_path / str(number)
        done = run(service, "transcribe", tmp_path / source, "--out", out)
        assert done.returncode == 1, done.stderr
        assert "6 reused, 10 failed" in done.stderr
        assert texts(out) == want
    assert len(calls(model)) == before
    forced = run(service, "transcribe", tmp_path / "a.zip", "--out", tmp_path / "1", "--force")
    assert "6 done, 10 failed" in forced.stderr
    assert len(calls(model)) == before + 6


def test_hard_cases_hurt_no_other_item(service: Service, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name in ("a.wav", "a.mp3", "taken.wav", "blocked/b.wav", ".hidden.wav", "song.txt"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(clip(3000 + len(name)))
    raw = os.fsencode(source) + b"/caf\xe9.wav"
    Path(os.fsdecode(raw)).write_bytes(clip(3100))
    (source / "circle").symlink_to(source)
    (source / "notes.md").write_text("hello")
    out.mkdir()
    (out / "taken.txt").write_text("mine")
    (out / "blocked").write_text("no folder can be made here")
    done = run(service, "transcribe", source, "--out", out, "--report", out / "r.csv")
    assert done.returncode == 1, done.stderr
    entries = {
        Path(entry["id"]).name: entry
        for entry in map(json.loads, (out / "r.jsonl").read_text().splitlines())
    }
    status = {name: entry["status"] for name, entry in entries.items()}
    same = {status.pop("a.wav"), status.pop("a.mp3")}
    assert same == {"done", "reused"}  # their bytes are the same
    assert status == {
        "taken.wav": "exists",
        "b.wav": "failed",
        ".hidden.wav": "skipped",
        "song.txt": "done",
        os.fsdecode(b"caf\xe9.wav"): "done",
        "circle": "skipped",
        "notes.md": "skipped",
    }
    assert "cannot be written" in entries["b.wav"]["error"]
    assert (out / "taken.txt").read_text() == "mine"
    assert {"a.wav.txt", "a.mp3.txt", "song.txt"} <= {path.name for path in out.glob("*.txt")}
    assert os.path.exists(os.fsencode(out) + b"/caf\xe9.txt")  # noqa: PTH110 - a Path has no bytes
    assert "caf\\udce9.wav" in (out / "r.csv").read_text()
    over = run(service, "transcribe", source / "taken.wav", "--out", out, "--overwrite")
    assert over.returncode == 0, over.stderr
    assert (out / "taken.txt").read_text() != "mine"


def test_a_dry_run_lists_and_does_nothing(tmp_path: Path) -> None:
    build(tmp_path / "in", clips=3, seed=4000)
    done = run(None, "transcribe", tmp_path / "in", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "13 of 13 would be done: 0.00 h of audio, and 10 of unknown length" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_outputs_beside_the_recordings_in_every_format_by_an_own_service(
    model: Path, tmp_path: Path
) -> None:
    build(tmp_path / "in", clips=2, seed=5000, whole=True)
    done = run(
        None,
        *("transcribe", tmp_path / "in", "--format", "txt,srt,vtt,json,tsv"),
        *("--report", tmp_path / "r.jsonl", "--data-dir", tmp_path / "data"),
        VOXQUEUE_STT_MODEL=str(model),
    )
    assert done.returncode == 0, done.stderr
    assert len([path for path in (tmp_path / "in").rglob("*") if path.is_file()]) == 12
    assert json.loads((tmp_path / "in" / "0" / "0" / "clip 0.json").read_text())["segments"]


def test_a_service_that_is_not_there_ends_the_run_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(clip(6000))
    done = run(
        None,
        *("transcribe", tmp_path / "a.wav", "--out", tmp_path / "out"),
        *("--data-dir", tmp_path / "data"),
        VOXQUEUE_STT_MODEL=str(tmp_path / "none"),
    )
    assert done.returncode == 1
    assert "the service did not start" in done.stderr
    assert "Traceback" not in done.stderr


def book(sentences: int) -> str:
    text = "# The beginning\n\n"
    for n in range(sentences):
        text += f"This is sentence number {n} of the book. "
        text += "\n\n" if n % 7 == 6 else ""
        text += "\n\n# The middle\n\n" if n == sentences // 2 else ""
    return text


def test_a_book_is_spoken_whole_and_a_stopped_run_goes_on(
    service: Service, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "book.txt").write_text(book(400))
    arguments = ("speak", tmp_path / "book.txt", "--out", tmp_path / "out")
    process = start(service, *arguments)
    eventually(lambda: list((tmp_path / "out").glob(".book.parts/*.wav")))
    process.send_signal(signal.SIGINT)
    process.communicate()
    done = run(service, *arguments)
    assert done.returncode == 0, done.stderr
    timing = json.loads((tmp_path / "out" / "book.json").read_text())
    said = " ".join(span["text"] for span in timing["spans"])
    assert [f"sentence number {n} of" in said for n in range(400)] == [True] * 400
    assert all(a["end"] <= b["start"] + 0.001 for a, b in itertools.pairwise(timing["spans"]))
    with wave.open(str(tmp_path / "out" / "book.wav")) as file:
        seconds = file.getnframes() / file.getframerate()
    assert seconds == pytest.approx(timing["duration"], abs=0.01)
    assert timing["spans"][-1]["end"] == pytest.approx(seconds, abs=0.01)
    heard = [call for call in calls(model) if call.startswith("say This is sentence")]
    assert len(heard) == len(set(heard))
    before = len(calls(model))
    assert run(service, *arguments).returncode == 0
    assert len(calls(model)) == before
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"book.wav", "book.json", "voxqueue-report.jsonl"}

    chapters = run(service, *arguments, "--chapters")
    assert chapters.returncode == 0, chapters.stderr
    assert {path.name for path in (tmp_path / "out").glob("book-*.wav")} == {
        "book-001.wav",
        "book-002.wav",
    }


def test_texts_that_cannot_be_spoken_hurt_no_other(service: Service, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("Good morning.")
    (tmp_path / "empty.txt").write_text(" * * * ")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "raise.txt").write_text("RAISE")
    names = [tmp_path / f"{name}.txt" for name in ("empty", "latin", "raise", "none", "good")]
    done = run(service, "speak", *names, "--out", tmp_path / "out")
    assert done.returncode == 1
    status = [entry["status"] for entry in report(tmp_path / "out").values()]
    assert sorted(status) == ["done", "failed", "failed", "failed", "failed"]
    assert (tmp_path / "out" / "good.wav").exists()


@pytest.mark.weights
def test_real_recordings_with_real_weights(
    real_models: None, speech_dir: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in" / "talks"
    source.mkdir(parents=True)
    for name in ("jfk.wav", "jfk.flac", "jfk.mp3"):
        (source / name).write_bytes((speech_dir / name).read_bytes())
    (source / "broken.flac").write_bytes((speech_dir / "jfk.flac").read_bytes()[:100])
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "in", ".")
    common = ("--format", "txt,srt", "--data-dir", tmp_path / "data")
    done = run(None, "transcribe", tmp_path / "in", "--out", tmp_path / "0", *common)
    assert "3 done, 1 failed" in done.stderr, done.stderr
    for path in (tmp_path / "0").rglob("*.txt"):
        assert "ask not what your country can do for you" in path.read_text().lower()
    srt = (tmp_path / "0" / "talks" / "jfk.wav.srt").read_text()
    assert srt.startswith("1\n00:00:00,")
    again = run(None, "transcribe", tmp_path / "a.tar.gz", "--out", tmp_path / "1", *common)
    assert "3 reused, 1 failed" in again.stderr, again.stderr
    assert texts(tmp_path / "0") == texts(tmp_path / "1")
