"""The words of a library or a model as a caller may read them.

Gone are the directories of paths, what follows the scheme of an address, whatever looks like a
secret, and every line but the first. The log has it all.
"""

from __future__ import annotations

import re

CHARACTERS = 500  # of what a caller is told
GONE = "…"

_NAME = r"[^\s/\\:'\"`<>|()\[\]{},;]+"
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b([a-z][a-z0-9+.-]*)://[^\s'\"`<>]*", re.IGNORECASE), rf"\1://{GONE}"),
    # A quoted path may hold blanks.
    (re.compile(r"(['\"`])(?:~|[A-Za-z]:)?[/\\][^'\"`]*[/\\]([^'\"`/\\]*)\1"), rf"\1{GONE}/\2\1"),
    (
        re.compile(rf"(?<![\w<{GONE}/\\])(?:~|[A-Za-z]:)?[/\\](?:{_NAME}[/\\]+)+({_NAME})?"),
        rf"{GONE}/\1",
    ),
    (
        re.compile(
            r"\b(pass(?:word|wd)?|secret|token|(?:api|access)[_-]?key(?:[_-]?id)?|authorization)"
            r"(['\"]?\s*[=:]\s*)(?:(?:bearer|basic)\s+)?['\"]?[^\s'\",;]+['\"]?",
            re.IGNORECASE,
        ),
        rf"\1\2{GONE}",
    ),
    (re.compile(r"\b(bearer|basic)\s+[\w+/=.~-]{8,}", re.IGNORECASE), rf"\1 {GONE}"),
    (re.compile(r"\b(?:AKIA|sk-|hf_|ghp_|vq_|whsec_)[\w+/=-]{8,}"), GONE),
)


def scrubbed(error: Exception) -> str:
    """What the exception says, or its kind when it says nothing."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return scrub(lines[0])


def scrub(words: str) -> str:
    for pattern, instead in _REPLACEMENTS:
        words = pattern.sub(instead, words)
    return words[:CHARACTERS]
