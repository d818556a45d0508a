"""The provider's contract on a random model, and real speech with real weights."""

from __future__ import annotations

import numpy as np
import pytest

from models.base import (
    Capability,
    CheckpointError,
    InputRejected,
    NotSupported,
    SpeechProvider,
    TranscribeOptions,
)
from models.whisper.provider import load

JFK = (
    " And so my fellow Americans, ask not what your country can do for you,"
    " ask what you can do for your country."
)
OPTIONS = TranscribeOptions(max_tokens=12)


@pytest.fixture(scope="module")
def provider(build, tmp_path_factory):
    path = build.native(tmp_path_factory.mktemp("w") / "native", build.tensors(build.sizes()))
    return load(path, "tiny-random")


@pytest.fixture(scope="module")
def base(checkpoint):
    return load(checkpoint("whisper-base"), "whisper-base")


def test_is_a_speech_provider(provider):
    assert isinstance(provider, SpeechProvider)
    assert (provider.sample_rate, provider.window_seconds) == (16_000, 30.0)
    assert provider.info.name == "tiny-random"
    assert provider.info.capabilities == {Capability.STT}
    assert provider.info.multilingual
    assert provider.info.details["layout"] == "mlx"
    assert provider.info.details["n_audio_layer"] == 2


def test_revision_follows_the_content(build, tmp_path):
    sizes = build.sizes(text_layers=1)
    first, same, other = (
        load(build.native(tmp_path / str(i), build.tensors(sizes, seed)), "x").info.revision
        for i, seed in enumerate((1, 1, 2))
    )
    assert first == same != other


def test_windows_are_transcribed_independently(provider, noise):
    windows = [noise, noise[::-1] * 0.5, noise[:8000]]
    together = provider.transcribe(windows, TranscribeOptions(language="en", max_tokens=12))
    alone = [
        provider.transcribe([w], TranscribeOptions(language="en", max_tokens=12))[0]
        for w in windows
    ]
    assert [t.text for t in together] == [t.text for t in alone]
    assert [s.end for t in together for s in t.segments] == [2.0, 2.0, 0.5]


def test_more_windows_than_a_batch(provider, noise):
    found = provider.transcribe([noise] * 10, TranscribeOptions(language="en", max_tokens=2))
    assert len({t.text for t in found}) == 1
    assert len(found) == 10


def test_no_windows_no_transcripts(provider):
    assert provider.transcribe([], OPTIONS) == []


@pytest.mark.parametrize("level_db", [None, -70, -90])
def test_silence_has_no_text(provider, level_db):
    rng = np.random.default_rng(0)
    level = 0.0 if level_db is None else 10 ** (level_db / 20)
    quiet = rng.normal(0, level, 12 * 16_000).astype(np.float32)
    (found,) = provider.transcribe([quiet], OPTIONS)
    assert (found.text, found.segments, found.language) == ("", (), "en")


def test_a_silent_window_among_others_keeps_its_place(provider, noise):
    silent = np.zeros(16_000, np.float32)
    found = provider.transcribe(
        [silent, noise, silent], TranscribeOptions(language="fr", max_tokens=3)
    )
    assert [bool(t.text) for t in found] == [False, True, False]
    assert {t.language for t in found} == {"fr"}


def test_an_empty_window_echoes_the_hint(provider):
    (found,) = provider.transcribe([np.zeros(0, np.float32)], TranscribeOptions(language="De"))
    assert (found.text, found.language) == ("", "de")


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (np.zeros(480_001, np.float32), "480000"),
        (np.zeros((2, 100), np.float32), r"\(2, 100\)"),
        (np.array([0, np.nan], np.float32), "not numbers"),
    ],
)
def test_a_window_it_cannot_take_is_rejected(provider, window, message):
    with pytest.raises(InputRejected, match=message):
        provider.transcribe([window], OPTIONS)


def test_it_does_not_speak(provider):
    with pytest.raises(NotSupported, match="tiny-random"):
        provider.plan_speech("hello")
    with pytest.raises(NotSupported, match="tiny-random"):
        provider.synthesize([], voice=None, speed=1.0)


def test_no_tokenizer_is_named(build, tmp_path):
    path = build.native(tmp_path / "n", build.tensors(build.sizes()))
    (path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        load(path, "x")


@pytest.mark.weights
def test_real_speech(base, speech):
    (found,) = base.transcribe([speech("jfk.wav")], TranscribeOptions())
    assert (found.text, found.language) == (JFK, "en")
    (segment,) = found.segments
    assert (segment.start, segment.end) == (0.0, 11.0)
    assert segment.avg_logprob > -0.2
    assert segment.no_speech_prob < 0.1


@pytest.mark.weights
def test_real_speech_in_one_batch_equals_one_by_one(base, speech):
    names = ("jfk.wav", "librivox_0880.wav")
    windows = [speech(name) for name in names]
    together = base.transcribe(windows, TranscribeOptions())
    alone = [base.transcribe([window], TranscribeOptions())[0] for window in windows]
    assert [t.text for t in together] == [t.text for t in alone]


@pytest.mark.weights
def test_each_recording_of_a_batch_keeps_its_own_language(base, speech):
    windows = [speech(name) for name in ("jfk.wav", "chinese.flac", "librivox_0880.wav")]
    alone = [base.transcribe([window], TranscribeOptions())[0] for window in windows]
    together = base.transcribe(windows, TranscribeOptions(one_language=False))
    assert [t.language for t in together] == ["en", "zh", "en"]
    assert [t.text for t in together] == [t.text for t in alone]


@pytest.mark.weights
def test_real_speech_with_times(base, speech):
    pause = np.zeros(16_000, np.float32)
    window = np.concatenate([speech("librivox_0870.wav"), pause, speech("librivox_0880.wav")])
    (found,) = base.transcribe([window], TranscribeOptions(timestamps=True))
    assert len(found.segments) == 2
    assert found.segments[0].end == pytest.approx(7.1, abs=1.0)
    assert found.segments[1].end <= len(window) / 16_000


@pytest.mark.weights
def test_english_only_weights(checkpoint, speech):
    provider = load(checkpoint("whisper-tiny.en"), "whisper-tiny.en")
    assert not provider.info.multilingual
    options = TranscribeOptions(language="fr", task="translate")
    (found,) = provider.transcribe([speech("jfk.wav")], options)
    assert found.text.startswith(" And so my fellow Americans")
    assert found.language == "fr"


@pytest.mark.weights
@pytest.mark.parametrize("level_db", [-50, -30])
def test_real_weights_hear_nothing_in_noise(base, level_db):
    noise = np.random.default_rng(0).normal(0, 10 ** (level_db / 20), 12 * 16_000)
    (found,) = base.transcribe([noise.astype(np.float32)], TranscribeOptions())
    assert found.text == ""
