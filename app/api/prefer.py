"""The ``Prefer`` header (RFC 7240): ``respond-async`` and ``wait=N``; others are ignored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preference:
    respond_async: bool = False
    wait_seconds: float | None = None


def parse(values: list[str]) -> Preference:
    respond_async, wait = False, None
    for item in ",".join(values).split(","):
        token, _, value = item.split(";")[0].partition("=")
        name = token.strip().lower()
        if name == "respond-async":
            respond_async = True
        elif name == "wait" and wait is None:
            digits = value.strip().strip('"')
            wait = float(digits) if digits.isdecimal() and len(digits) < 10 else None
    return Preference(respond_async=respond_async, wait_seconds=wait)
