"""``python -m benchmarks.memory FILE``: resident memory of the worker after 1 and after N requests.

Requests alternate between transcriptions of 1 to 28 s and speech of one to four sentences.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import soundfile

from app.demo import running
from benchmarks.round_trip import SENTENCES

SETTLE_SECONDS = 0.5  # the worker gives memory back once the answer is out


def resident_megabytes() -> float:
    """Of the one worker process on this machine (Linux)."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"tasks.worker" in command:
                return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024
        except (OSError, IndexError):
            continue  # a process that ended meanwhile, or a kernel thread
    raise RuntimeError("no worker process found")


def transcribe(url: str, samples: object, rate: int) -> None:
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
                seconds = chance.uniform(1, 28)
                looped = [samples[i % len(samples)] for i in range(int(seconds * rate))]
                transcribe(url, looped, rate)
            else:
                speak(url, " ".join(chance.sample(SENTENCES, chance.randint(1, 4))))
            if number in (1, 2, 4, 8, 16, 32, arguments.requests):
                time.sleep(SETTLE_SECONDS)
                print(f"after {number:3} requests: {resident_megabytes():.0f} MB", flush=True)


if __name__ == "__main__":
    main()
