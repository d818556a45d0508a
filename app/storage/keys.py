"""The layout of the blob store. Outputs lie under their attempt, so that two never meet."""

from __future__ import annotations


def source(job_id: str) -> str:
    return f"in/{job_id}/source"


def transcript(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/transcript.json"


def speech(job_id: str, attempt: int) -> str:
    return f"out/{job_id}/{attempt}/speech.wav"
