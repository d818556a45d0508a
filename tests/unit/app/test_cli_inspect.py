"""`voxqueue inspect`: the service's own numbers, texts and refusals on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from app.cli import cli


@pytest.fixture
def inspect():
    def run(*arguments):
        return CliRunner().invoke(cli, ["inspect", *map(str, arguments)])

    return run


@pytest.fixture
def file(tmp_path, encoded, tone):
    def write(name="tone.wav", seconds=0.1, *, rate=16_000, data=None):
        path = tmp_path / name
        container = {"wav": "WAV", "mp3": "MP3", "flac": "FLAC"}[name.rsplit(".", 1)[1]]
        path.write_bytes(data or encoded(tone(seconds, rate=rate), container, rate=rate))
        return path

    return write


def test_the_batch_and_the_policy_as_json(inspect, file):
    first, second = file("a.wav"), file("b.flac", rate=8_000)
    result = inspect(first, second, "--family", "gemma3n", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["policy"]["max_samples_per_clip"] == 480_000
    batch = report["batch"]
    assert (batch["family"], batch["total_source_samples"]) == ("gemma3n", 2_400)
    assert (batch["total_samples"], batch["effective_audio_tokens"]) == (3_200, 376)
    assert batch["boundaries"][1] == {
        "clip_index": 1,
        "placeholder_ordinal": 2,
        "start_sample": 1_600,
        "end_sample": 3_200,
    }
    assert batch["clips"][1] == {
        "file": str(second),
        "source_kind": "cli_file",
        "placeholder_ordinal": 2,
        "encoded_bytes": second.stat().st_size,
        "source_sample_rate": 8_000,
        "source_channels": 1,
        "source_samples": 800,
        "source_duration_micros": 100_000,
        "sample_rate": 16_000,
        "samples": 1_600,
        "feature_frames": 8,
    }


def test_lines_for_people(inspect, file):
    result = inspect(file(), "--family", "phi4mm")
    lines = result.stdout.splitlines()
    assert "  resampling: scipy_polyphase_integer" in lines
    assert "  estimated_frames: 8" in lines
    assert "    placeholder_ordinal: 1" in lines


def test_a_checkpoints_own_policy(inspect, file, tmp_path):
    (tmp_path / "config.json").write_text('{"max_audio_duration": 5}')
    result = inspect(file(), "--family", "gemma3n", "--model", tmp_path, "--json")
    policy = json.loads(result.stdout)["policy"]
    assert (policy["max_duration_seconds"], policy["source"]) == (5, "model processor config")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"junk", "audio clip 1 is corrupt: missing RIFF/WAVE header"),
        (
            b"fLaC",
            "audio clip 1 is corrupt: flac container is malformed: metadata block chain runs",
        ),
        (b"ID3" + bytes(99), "audio clip 1 is corrupt: mp3 container could not be parsed: "),
    ],
)
def test_refusals_are_the_services(inspect, file, data, text):
    result = inspect(file(), file("bad.wav", data=data), "--family", "gemma3n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"voxqueue: {text}")
    assert result.stderr.count("\n") == 1


def test_limits_are_refusals(inspect, file):
    path = file(seconds=31, rate=1_000)
    result = inspect(path, "--family", "gemma3n")
    text = "audio source duration samples limit exceeded: actual 31000, maximum 30000"
    assert (result.exit_code, result.stderr) == (1, f"voxqueue: {text}\n")
    result = inspect(path, "--family", "phi4mm")
    text = "audio clip 0 is corrupt: source sample rate 1000 Hz is below the 8000 Hz family minimum"
    assert (result.exit_code, result.stderr) == (1, f"voxqueue: {text}\n")
    result = inspect(*[file()] * 17, "--family", "phi4mm")
    assert result.stderr == "voxqueue: audio clip count limit exceeded: actual 17, maximum 16\n"


def test_files_are_read_no_further_than_the_bound(inspect, file, tmp_path):
    limits = {"mlxcel_audio_limits": {"max_encoded_bytes_per_clip": 100}}
    (tmp_path / "config.json").write_text(json.dumps(limits))
    path = file()
    result = inspect(path, "--family", "gemma3n", "--model", tmp_path)
    text = f"audio encoded bytes per clip limit exceeded: actual {path.stat().st_size}, maximum 100"
    assert (result.exit_code, result.stderr) == (1, f"voxqueue: {text}\n")


def test_a_policy_that_the_worker_would_refuse(inspect, file, tmp_path):
    (tmp_path / "config.json").write_text('{"sampling_rate": "16000"}')
    result = inspect(file(), "--family", "gemma3n", "--model", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "voxqueue: audio source context failed for clip 0: invalid loaded audio processor config: "
        "/sampling_rate must be a non-negative integer, got string\n"
    )


def test_an_interrupt_has_its_own_status(inspect, file, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli_inspect.prepare", interrupt)
    result = inspect(file(), "--family", "gemma3n")
    assert (result.exit_code, result.stdout) == (130, "")


def test_missing_files_and_families(inspect, file, tmp_path):
    result = inspect(tmp_path / "none.wav", "--family", "gemma3n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "none.wav: No such file or directory" in result.stderr
    assert inspect(tmp_path, "--family", "gemma3n").exit_code == 1
    assert inspect(file(), "--family", "other").exit_code == 2
    assert inspect(file()).exit_code == 2
    assert inspect("--family", "gemma3n").exit_code == 2
