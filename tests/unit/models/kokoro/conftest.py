"""A small lexicon for rules, the real checkpoint for truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import catalog
from models.base import CheckpointError
from models.kokoro.provider import KokoroProvider, load
from models.kokoro.text.g2p import G2p
from models.kokoro.text.lexicon import Lexicon

GOLD = {
    "hello": "həlˈO",
    "world": "wˈɜɹld",
    "cat": "kˈæt",
    "church": "ʧˈɜɹʧ",
    "walk": "wˈɔk",
    "wait": "wˈAt",
    "stop": "stˈɑp",
    "make": "mˈAk",
    "carry": "kˈæɹi",
    "apple": "ˈæpᵊl",
    "the": "ði",
    "to": "tu",
    "and": "ænd",
    "this": {"DEFAULT": "ðɪs", "None": "ðˈɪs"},
    "read": {"DEFAULT": "ɹˈid", "VBN": "ɹˈɛd"},
    "use": {"DEFAULT": "jˈuz", "NOUN": "jˈus"},
    "used": {"DEFAULT": "jˈuzd", "VBD": "jˈust"},
    "live": {"DEFAULT": "lˈIv", "VERB": "lˈɪv"},
    "butter": "bˈʌɾəɹ",
    "US": {"DEFAULT": "ˌʌs", "NOUN": None},
    "us": "ʌs",
    "o'clock": "əklˈɑk",
    "sun": "sˈʌn",
    "flower": "flˈWəɹ",
    "well-known": "wˈɛlnˈOn",
    **{letter: f"ˈ{letter.lower()}" for letter in "BDPSTUV"},
    "A": "ˈA",
    "I": "ˈI",
}
SILVER = {"january": "ʤˈænjəwˌɛɹi", "Smith": "smˈɪθ"}
VOCAB = frozenset(';:,.!?—…"()“” AIOTWYabdefhijklmnpstuvwxzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧˈˌθᵊᵻ')


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    return Lexicon(GOLD, SILVER)


@pytest.fixture(scope="session")
def g2p(lexicon: Lexicon) -> G2p:
    return G2p(lexicon, VOCAB)


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    try:
        return catalog.checkpoint_path("kokoro-82m")
    except CheckpointError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def provider(checkpoint: Path) -> KokoroProvider:
    return load(checkpoint, "kokoro-82m")
