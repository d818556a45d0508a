"""The whole model with its real weights."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from models.backend import mx
from models.base import (
    Capability,
    CheckpointError,
    InputRejected,
    NotSupported,
    SpeechProvider,
    TranscribeOptions,
    Utterance,
)
from models.kokoro.provider import load

pytestmark = pytest.mark.weights
TEXT = "Hello."


def say(provider, text=TEXT, voice=None, speed=1.0):
    return np.concatenate(provider.synthesize(provider.plan_speech(text), voice=voice, speed=speed))


def test_is_a_speech_provider(provider):
    assert isinstance(provider, SpeechProvider)
    assert provider.info.capabilities == {Capability.TTS}
    assert "af_heart" in provider.info.voices
    assert provider.sample_rate == 24_000
    with pytest.raises(NotSupported):
        provider.transcribe([], TranscribeOptions())


def test_says_something_of_plausible_length_and_level(provider):
    speech = say(provider)
    assert speech.dtype == np.float32
    assert 0.6 < len(speech) / provider.sample_rate < 3
    assert np.isfinite(speech).all()
    assert 0.05 < np.abs(speech).max() < 1
    assert 0.01 < np.sqrt(np.mean(speech**2)) < 0.3


def test_same_input_same_samples(provider):
    first = say(provider)
    say(provider, "Else.")
    assert np.array_equal(first, say(provider))


def test_utterances_do_not_depend_on_each_other(provider):
    """Same timing and, but for the rounding of sums on one thread or several, the same samples."""
    utterances = [*provider.plan_speech(TEXT), *provider.plan_speech("More.")]
    together = provider.synthesize(utterances, voice=None, speed=1.0)
    alone = [provider.synthesize([one], voice=None, speed=1.0)[0] for one in utterances]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=0.01)
    again = provider.synthesize(utterances, voice=None, speed=1.0)
    assert all(np.array_equal(a, b) for a, b in zip(together, again, strict=True))


def test_speed(provider):
    normal = len(say(provider))
    assert len(say(provider, speed=2.0)) < 0.7 * normal
    assert len(say(provider, speed=float("nan"))) == normal
    assert len(say(provider, speed=-1)) == normal


def test_voices_differ_and_unknown_ones_are_the_default(provider):
    assert not np.array_equal(say(provider), say(provider, voice="am_michael"))
    assert np.array_equal(say(provider), say(provider, voice="../nobody"))


def test_utterances_at_the_limit(provider):
    longest = Utterance(text="", phonemes="a " * 255)
    assert len(provider.synthesize([longest], voice=None, speed=20.0)[0]) > 24_000
    for phonemes in ("a" * 511, "", "漢"):
        with pytest.raises(InputRejected):
            provider.synthesize([Utterance(text="", phonemes=phonemes)], voice=None, speed=1.0)


def test_the_real_lexicon_stays_in_the_vocabulary(provider, checkpoint):
    vocab = json.loads((checkpoint / "config.json").read_text())["vocab"]
    text = "The US economy grew 5.3% to $100 after 9:30PM, said Dr. Zorblatt’s café — really?"
    for utterance in provider.plan_speech(text):
        assert set(utterance.phonemes) <= set(vocab)


def test_a_checkpoint_without_its_tensors_names_them(checkpoint, tmp_path):
    shutil.copy(checkpoint / "config.json", tmp_path)
    mx.save_safetensors(str(tmp_path / "kokoro-v1_0.safetensors"), {"odd": mx.zeros(1)})
    with pytest.raises(CheckpointError, match=r"word_embeddings\.weight is missing"):
        load(tmp_path, "broken")
