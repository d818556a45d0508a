"""How many feature frames and audio tokens a clip will become, from its length alone."""

from __future__ import annotations

GEMMA3N_SOFT_TOKENS = 188  # a clip, whatever its length: what 30 s make
GEMMA3N_PAD = 128  # samples, the multiple that a batch is padded to
PHI4MM_COMPRESSION = 8  # frames a token


def phi4mm_frames(samples: int, sample_rate: int) -> int:
    length, hop = (200, 80) if sample_rate == 8_000 else (400, 160)
    return 0 if samples < length else (samples - length) // hop + 1


def phi4mm_tokens(frames: int) -> int:
    return -(-frames // PHI4MM_COMPRESSION)


def gemma3n_frames(samples: int, _sample_rate: int) -> int:
    padded = GEMMA3N_PAD * -(-samples // GEMMA3N_PAD)
    return 0 if padded < 513 else (padded - 513) // 160 + 1


def gemma3n_tokens(_frames: int) -> int:
    return GEMMA3N_SOFT_TOKENS
