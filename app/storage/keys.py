"""The layout of the blob store. Outputs lie under their attempt, so that two never meet."""

from __future__ import annotations


def source(job_id: str) -> str:
    return f"in/{job_id}/source"


def transcript(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/transcript.json"


def speech(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/speech.wav"


FOLDERS = ("in/", "out/")


def folders(job_id: str) -> list[str]:
    """Prefixes of all that belongs to the job."""
    return [f"{folder}{job_id}/" for folder in FOLDERS]


def job_of(key: str) -> str:
    return key.split("/")[1]
