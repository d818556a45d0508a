"""Archives of real containers, and the archive's commands run on them as a user would."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import soundfile

from app.audio import decode
from tests.harness import PLUGINS, ROOT, Service

FORMATS = ("WAV", "FLAC", "MP3")


def clip(seed: int, format_: str = "WAV") -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, 4000 + 160 * (seed % 10))
    soundfile.write(file, noise, 16_000, format=format_)
    return file.getvalue()


def broken(seed: int) -> dict[str, bytes]:
    """Ten files that look like recordings by their names only, each in another way."""
    chance = random.Random(seed)
    return {
        "empty.wav": b"",
        "noise.wav": chance.randbytes(3000),
        "text.mp3": b"Dear diary, today I heard nothing. " * 40,
        "picture.flac": b"\x89PNG\r\n\x1a\n" + chance.randbytes(2000),
        "cut.flac": clip(seed, "FLAC")[:60],
        "cut.wav": clip(seed)[:40],
        "unknown.wav": b"RIFF\xff\xff\xff\xffWAVE" + chance.randbytes(500),
        "tag.mp3": b"ID3\x04\x00\x00\x00\x00\x02\x01" + bytes(4000),
        "archive.flac": b"PK\x03\x04" + chance.randbytes(800),
        "pages.ogg": b"OggS" + chance.randbytes(700),
    }


def build(root: Path, *, clips: int, seed: int, whole: bool = False) -> dict[str, bytes]:
    """Clips in nested folders, with broken files among them unless it is to be whole."""
    files = {}
    for n in range(clips):
        format_ = FORMATS[n % 3]
        files[f"{n % 4}/{n % 5}/clip {n}.{format_.lower()}"] = clip(seed + n, format_)
    if not whole:
        files |= {f"{n % 4}/{name}": data for n, (name, data) in enumerate(broken(seed).items())}
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


def is_broken(name: str) -> bool:
    return not PurePosixPath(name).name.startswith("clip ")


def heard(data: bytes) -> str:
    """What the fake model hears in a clip."""
    samples = np.concatenate(list(decode.blocks(io.BytesIO(data), rate=16_000, max_seconds=60)))
    pcm = np.round(samples * 32768).astype("<i2")
    return f"transcribe:{hashlib.sha256(pcm.tobytes()).hexdigest()[:12]}"


def command(service: Service | None, *arguments: object) -> list[str]:
    server = ["--server", service.url] if service else []
    return [sys.executable, "-m", "app.cli", *map(str, arguments), *server]


def run(
    service: Service | None, *arguments: object, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(service, *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(PLUGINS), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def start(service: Service, *arguments: object, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(service, *arguments),
        cwd=ROOT,
        env={**os.environ, **env},
        stderr=subprocess.PIPE,
        text=True,
    )


def report(out: Path) -> dict[str, dict[str, Any]]:
    lines = (out / "voxqueue-report.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert len({entry["id"] for entry in entries}) == len(entries)
    return {entry["id"]: entry for entry in entries}


def texts(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.txt")}
