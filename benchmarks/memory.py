"""``python -m benchmarks.memory FILE``: the worker's memory after 1 and after N requests.

Resident memory, and what MLX has in use and keeps for later. Requests alternate between
transcriptions of eight lengths and speech of one to four sentences.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import numpy as np
import soundfile

from app.demo import running
from benchmarks.round_trip import SENTENCES

LENGTHS = (1, 2, 4, 7, 11, 16, 22, 28)  # s
SETTLE_SECONDS = 5  # the worker reports after the answer is out, with its heartbeat


def megabytes(url: str) -> str:
    """What the worker last reported of its memory."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310 - loopback
        found = re.findall(
            r'^voxqueue_worker_memory_bytes{.*of="(\w+)".*} (\S+)',
            answer.read().decode(),
            re.MULTILINE,
        )
    return ", ".join(f"{holder} {float(size) / 2**20:.0f} MB" for holder, size in found)


def transcribe(url: str, samples: np.ndarray, rate: int) -> None:
    wav, boundary = io.BytesIO(), uuid.uuid4().hex
    soundfile.write(wav, samples, rate, format="WAV")
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    body = head.encode() + wav.getvalue() + f"\r\n--{boundary}--\r\n".encode()
    post(f"{url}/v1/audio/transcriptions", body, f"multipart/form-data; boundary={boundary}")


def speak(url: str, text: str) -> None:
    body = json.dumps({"model": "m", "input": text}).encode()
    post(f"{url}/v1/audio/speech", body, "application/json")


def post(url: str, body: bytes, kind: str) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": kind})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - loopback
        answer.read()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("file", type=Path)
    parser.add_argument("--requests", type=int, default=50)
    arguments = parser.parse_args()
    samples, rate = soundfile.read(arguments.file, dtype="float32")
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as data, running(Path(data)) as url:
        for number in range(1, arguments.requests + 1):
            if number % 2:
                seconds = LENGTHS[number // 2 % len(LENGTHS)]
                transcribe(url, np.resize(samples, seconds * rate), rate)
            else:
                speak(url, " ".join(chance.sample(SENTENCES, chance.randint(1, 4))))
            if number in (1, 10, 50, 100, arguments.requests):
                time.sleep(SETTLE_SECONDS)
                print(f"after {number:3} requests: {megabytes(url)}", flush=True)


if __name__ == "__main__":
    main()
