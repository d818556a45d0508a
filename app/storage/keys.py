"""The layout of the blob store. Outputs lie under their attempt, so that two never meet."""

from __future__ import annotations


def source(job_id: str) -> str:
    return f"in/{job_id}/source"


def transcript(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/transcript.json"


def speech(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/speech.wav"


def timing(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/timing.json"


def parts(job_id: str) -> str:
    """The prefix of what is kept of a speech on its way."""
    return f"parts/{job_id}/"


def part(job_id: str, attempt: int, number: int) -> str:
    return f"{parts(job_id)}{attempt}/{number}.pcm"


def beside(output_key: str) -> list[str]:
    """What else an attempt has written with this output."""
    folder, _, name = output_key.rpartition("/")
    return [f"{folder}/timing.json"] if name == "speech.wav" else []


def moved(output_key: str, job_id: str, attempt: int) -> str:
    """The same output of another job's attempt."""
    return f"out/{job_id}/{attempt}/{output_key.rpartition('/')[2]}"


def content_type(key: str) -> str:
    return "audio/wav" if key.endswith(".wav") else "application/json"


def uploaded(file_id: str) -> str:
    return f"files/{file_id}/content"


FOLDERS = ("in/", "out/", "parts/")


def folders(job_id: str) -> list[str]:
    """Prefixes of all that belongs to the job."""
    return [f"{folder}{job_id}/" for folder in FOLDERS]


def folder(key: str) -> str:
    """The prefix of all that lies beside the blob: what its attempt has stored."""
    return key.rpartition("/")[0] + "/"


def job_of(key: str) -> str:
    return key.split("/")[1]
