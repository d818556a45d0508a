"""``make demo``: the main job once, through the real service: text to speech and back to text.

Talks to the service over HTTP as any client does; prints what came back, how long it took and
where everything lies.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PARAGRAPH = (
    "Voxqueue turns speech into text, and text into speech. Every request becomes a job in a "
    "database, so nothing is lost when a worker dies. This paragraph was spoken by Kokoro, "
    "and Whisper is about to write it down again."
)
TIMEOUT_SECONDS = 600


def demo(data: Path, recordings: list[Path]) -> None:
    for path in recordings:
        if not path.is_file():
            sys.exit(f"voxqueue demo: {path} is not a file")
    print("Starting the service …", flush=True)
    started = time.perf_counter()
    with running(data) as url:
        print(f"Ready at {url} after {time.perf_counter() - started:.1f} s\n")
        wav = data / "demo.wav"
        speak(url, wav)
        for path in [wav, *recordings]:
            transcribe(url, data, path)
        print(f"Job rows    {data / 'db.sqlite'} (table jobs)")
    print("Stopped.")


@contextmanager
def running(data: Path) -> Iterator[str]:
    """`voxqueue serve` on a free port, stopped at the end; yields its base URL."""
    data.mkdir(parents=True, exist_ok=True)
    log = data / "serve.log"
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--data-dir", str(data)]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    if status:
        sys.exit(f"voxqueue demo: serve ended with status {status}, see {log}")


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := re.search(r"ready at (\S+?)\. Try", log.read_text()):
            return found[1]
        time.sleep(0.1)
    sys.exit(f"voxqueue demo: serve ended with status {process.returncode}:\n{log.read_text()}")


def speak(url: str, wav: Path) -> None:
    body = json.dumps({"model": "kokoro-82m", "input": PARAGRAPH}).encode()
    started = time.perf_counter()
    answer, speech = _post(url, "/v1/audio/speech", body, "application/json")
    seconds = time.perf_counter() - started
    wav.write_bytes(speech)
    length = (len(speech) - 44) / 2 / 24_000  # s: 16-bit mono at 24 kHz behind a 44-byte header
    print(f"Said        {PARAGRAPH}")
    print(f"Time        {seconds:.2f} s for {length:.1f} s of speech ({answer.status})")
    print(f"WAV         {wav}\n")


def transcribe(url: str, data: Path, path: Path) -> None:
    boundary = uuid.uuid4().hex
    body = b"".join(
        [
            f"--{boundary}\r\nContent-Disposition: form-data; ".encode(),
            f'name="file"; filename="{path.name}"\r\n\r\n'.encode(),
            path.read_bytes(),
            f"\r\n--{boundary}--\r\n".encode(),
        ]
    )
    started = time.perf_counter()
    _, answer = _post(
        url, "/v1/audio/transcriptions", body, f"multipart/form-data; boundary={boundary}"
    )
    seconds = time.perf_counter() - started
    job = _latest_job(url)
    audio = (job["metrics"] or {}).get("audio_seconds", 0.0)
    print(f"Heard       {json.loads(answer)['text']}")
    print(f"Time        {seconds:.2f} s for {audio:.1f} s of audio from {path.name}")
    transcript = data / "blobs" / "out" / job["id"] / str(job["attempts"]) / "transcript.json"
    print(f"Transcript  {transcript}\n")


def _latest_job(url: str) -> dict[str, Any]:
    connection = _connect(url)
    connection.request("GET", "/v1/jobs?limit=1")
    job: dict[str, Any] = json.load(connection.getresponse())["data"][0]
    connection.close()
    return job


def _post(url: str, path: str, body: bytes, kind: str) -> tuple[HTTPResponse, bytes]:
    connection = _connect(url)
    connection.request("POST", path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        sys.exit(f"voxqueue demo: {path} answered {answer.status}: {content.decode()}")
    return answer, content


def _connect(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    return HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("recordings", nargs="*", type=Path)
    arguments = parser.parse_args()
    demo(arguments.data_dir, arguments.recordings)


if __name__ == "__main__":
    main()
