"""Mutated files: samples within bounds or a waveform error, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from models.preprocess.batch import prepare
from models.preprocess.errors import WaveformError

CONTAINERS = [("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("MP3", None)]


def mutations(data: bytes, rng, count: int):
    """Flips, cuts, doubled and shuffled stretches; headers more often than bodies."""
    for number in range(count):
        changed = bytearray(data)
        reach = 64 if number % 2 else len(data)
        for _ in range(int(rng.integers(1, 6))):
            changed[int(rng.integers(reach))] = int(rng.integers(256))
        if number % 3 == 0:
            del changed[int(rng.integers(1, len(changed))) :]
        if number % 5 == 0:
            at = int(rng.integers(len(changed)))
            changed[at:at] = rng.bytes(int(rng.integers(1, 40)))
        yield bytes(changed)


@pytest.mark.parametrize("form", CONTAINERS)
@pytest.mark.parametrize("family", ["phi", "gemma"])
def test_3_mutated_files(request, encoded, tone, form, family):
    policy, clips = request.getfixturevalue(family), request.getfixturevalue("clips")
    data = encoded(tone(0.3, channels=2, rate=22_050), *form, rate=22_050)
    for mutated in mutations(data, np.random.default_rng(5), 150):
        holds(mutated, policy, clips)


@pytest.mark.parametrize("name", ["jfk.wav", "jfk.flac", "jfk.mp3"])
def test_3_mutated_speech(speech_dir, clips, gemma, name):
    data = (speech_dir / name).read_bytes()
    for mutated in mutations(data, np.random.default_rng(6), 12):
        holds(mutated, gemma, clips)


def holds(data, policy, clips):
    with suppress(WaveformError):
        batch = prepare(clips(data), policy)
        (clip,) = batch.clips
        assert np.isfinite(clip.samples).all()
        assert np.abs(clip.samples).max() <= 1
        assert 0 < len(clip.samples) == batch.total_samples
        assert clip.encoded_bytes == len(data)
        assert batch.estimated_frames <= policy.max_frames_per_request
