"""Word error rates: lower case, no punctuation, numbers as they are said."""

from __future__ import annotations

import re
import unicodedata

import jiwer

_MARKS = re.compile(r"[^\w\s']")
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def normal(text: str) -> str:
    """As spoken words; a script without spaces is scored by character."""
    plain = unicodedata.normalize("NFKC", text).lower().replace("-", " ").replace("’", "'")
    words = " ".join(_MARKS.sub(" ", plain).split())
    return " ".join(words.replace(" ", "")) if _SPACELESS.search(words) else words


def word_errors(reference: str, text: str) -> tuple[int, int]:
    """(wrong words, words of the reference)"""
    wanted = normal(reference)
    result = jiwer.process_words(wanted, normal(text))
    wrong = result.substitutions + result.deletions + result.insertions
    return wrong, len(wanted.split())
