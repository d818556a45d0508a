"""The other families that hear: tiny networks of each one's true shape, from samples to text."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys

import numpy as np
import pytest
import soundfile

from models import registry
from models.base import (
    Capability,
    CheckpointError,
    GivenUp,
    InputRejected,
    NotSupported,
    RecordingProvider,
    SpeechProvider,
    TranscribeOptions,
)
from models.chat_prompt import DEFAULT_PROMPT
from tests.chat_families import FAMILIES

FEW = TranscribeOptions(max_tokens=12)
# Positions of one second, of two, and text and marks of the template around them.
AUDIO = {
    "gemma4": (25, 50),
    "gemma4_unified": (25, 50),
    "qwen3_omni_moe": (13, 26),
    "minicpmo": (10, 20),
    "nemotron_h_nano_omni": (13, 26),
    "inkling": (20, 40),
    "mimo_v2": (7, 13),
}
AROUND = {"gemma4": 2, "gemma4_unified": 2, "qwen3_omni_moe": 2, "minicpmo": 2, "inkling": 1}
AROUND |= {"nemotron_h_nano_omni": 2, "mimo_v2": 0}


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def provider(request, family_checkpoint):
    return registry.load(family_checkpoint(request.param))


@pytest.fixture(scope="module")
def gemma4(family_checkpoint):
    return registry.load(family_checkpoint("gemma4"))


@pytest.fixture
def copied(family_checkpoint, tmp_path):
    def copy(family="gemma4", **changes):
        folder = shutil.copytree(family_checkpoint(family), tmp_path / "copy")
        change(folder / "config.json", **changes)
        return folder

    return copy


def change(file, **changes):
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**before, **changes}))


def noise(seconds=1.0, seed=1, rate=16_000):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, round(seconds * rate)).astype(np.float32)


def wav(samples, rate=16_000, subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


def refusal(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        registry.load(path)
    return str(caught.value)


def test_it_is_a_speech_provider(provider):
    assert isinstance(provider, SpeechProvider)
    assert isinstance(provider, RecordingProvider)
    assert (provider.info.streams, provider.info.translates) == (True, False)
    assert provider.info.capabilities == {Capability.STT}
    assert provider.info.family in FAMILIES
    assert (provider.sample_rate, provider.window_seconds) == (16_000, 30.0)
    assert "torch" not in sys.modules


def test_tokens_to_text_with_true_counts(provider):
    first, second = provider.transcribe([noise(), noise(2.0)], FEW)
    family = provider.info.family
    text = len(f"user\n{DEFAULT_PROMPT}\nassistant\n") + 3 + AROUND[family]
    assert first.usage.input_tokens == text + AUDIO[family][0]
    assert second.usage.input_tokens == text + AUDIO[family][1]
    assert 0 < first.usage.output_tokens <= 12
    assert len(first.text) <= 12
    assert first.usage.cached_tokens == 0


def test_greedy_answers_repeat_and_each_window_stands_alone(provider):
    windows = [noise(1.0, 1), noise(0.5, 2), np.zeros(10, np.float32), noise(2.0, 3)]
    together = provider.transcribe(windows, FEW)
    assert together == [provider.transcribe([window], FEW)[0] for window in windows]
    assert (together[2].text, together[2].usage.input_tokens) == ("", 0)


def test_the_audio_is_heard(provider):
    levels = (0.01, 0.1, 1.0)
    windows = [noise(0.5, seed) * level for seed in range(3) for level in levels]
    assert len({window.text for window in provider.transcribe(windows, FEW)}) > 1


def test_streamed_pieces_are_the_text_one_at_a_time(provider):
    pieces = []
    options = TranscribeOptions(max_tokens=40, language="en", on_text=pieces.append)
    (whole,) = provider.transcribe([noise()], options)
    assert "".join(pieces) == whole.text
    assert all(pieces)
    assert len(pieces) > 1
    assert whole.language == "en"


def test_prompt_and_language_are_what_it_is_told(provider):
    plain, told = (
        provider.transcribe([noise()], options)[0].usage.input_tokens
        for options in (
            TranscribeOptions(max_tokens=1),
            TranscribeOptions(max_tokens=1, prompt="Listen", language="de"),
        )
    )
    assert told - plain == len("Listen (language: de)") - len(DEFAULT_PROMPT)


def test_temperature_is_taken(provider):
    hot = TranscribeOptions(max_tokens=12, temperature=5.0)
    assert len({provider.transcribe([noise()], hot)[0].text for _ in range(4)}) > 1


def test_no_tokens_are_no_text(provider):
    (silent,) = provider.transcribe([noise()], TranscribeOptions(max_tokens=0))
    assert (silent.text, silent.usage.output_tokens) == ("", 0)
    assert silent.usage.input_tokens > 0


def test_a_whole_window_is_taken(provider):
    (heard,) = provider.transcribe([noise(30.0)], TranscribeOptions(max_tokens=1))
    (less,) = provider.transcribe([noise(29.0)], TranscribeOptions(max_tokens=1))
    assert heard.usage.input_tokens > less.usage.input_tokens  # nothing is cut off


def test_what_it_does_not_do(provider):
    with pytest.raises(NotSupported, match="does not translate"):
        provider.transcribe([noise()], TranscribeOptions(task="translate"))
    with pytest.raises(NotSupported, match="does not speak"):
        provider.plan_speech("hello")
    with pytest.raises(NotSupported, match="does not speak"):
        provider.synthesize([], voice=None, speed=1.0)
    for window in (np.zeros(480_001, np.float32), np.zeros((2, 16_000), np.float32)):
        with pytest.raises(InputRejected, match="at most 480000 mono samples"):
            provider.transcribe([window], FEW)


def test_6_its_own_marks_are_refused_in_words(provider):
    shape = FAMILIES[provider.info.family]
    for mark in ("<eos>", shape.end, *shape.named.values(), *shape.marks):
        with pytest.raises(InputRejected, match="message text contains the model's own mark"):
            provider.transcribe([noise()], TranscribeOptions(prompt=f"Listen {mark}"))


def test_words_that_its_processor_cannot_place_are_the_requests_fault(family_checkpoint):
    provider = registry.load(family_checkpoint("minicpmo"))
    for prompt, able in (("<audio> what?", True), ("<audio><audio>", False)):
        options = TranscribeOptions(prompt=prompt, max_tokens=1)
        if able:
            provider.transcribe([noise()], options)
            continue
        with pytest.raises(InputRejected, match=r"Audio markers \(2\) do not match"):
            provider.transcribe([noise()], options)


def test_a_recording_is_heard_as_its_window(provider):
    samples = noise(2.0)
    heard = provider.transcribe_recording(wav(samples, subtype="FLOAT"), FEW)
    (window,) = provider.transcribe([samples], FEW)
    assert (heard.text, heard.usage, heard.duration) == (window.text, window.usage, 2.0)
    assert heard.model == provider.info.name


@pytest.mark.parametrize("rate", [1_000, 8_000, 11_025, 44_100, 48_000])
def test_3_a_recording_is_decoded_at_its_native_rate_and_resampled_here(gemma4, rate):
    heard = gemma4.transcribe_recording(wav(noise(2.0, rate=rate), rate), FEW)
    assert heard.duration == 2.0
    (window,) = gemma4.transcribe([noise(2.0)], FEW)
    assert heard.usage.input_tokens == window.usage.input_tokens


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_2_6_compressed_recordings(gemma4, container):
    file = io.BytesIO()
    soundfile.write(file, noise(), 16_000, format=container)
    assert gemma4.transcribe_recording(file.getvalue(), FEW).duration == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("language", [None, "ja"])
def test_a_long_recording_is_heard_in_windows_whose_texts_are_one(gemma4, language):
    samples = np.concatenate([noise(20.0, 1), np.zeros(16_000, np.float32), noise(20.0, 2)])
    pieces = []
    options = TranscribeOptions(max_tokens=6, language=language, on_text=pieces.append)
    heard = gemma4.transcribe_recording(wav(samples, subtype="FLOAT"), options)
    assert "".join(pieces) == heard.text
    assert all(pieces)
    cut = 21 * 16_000 - 4_000  # in the pause, a quarter of a second before its end
    parts = gemma4.transcribe([samples[:cut], samples[cut:]], options)
    apart = "" if language == "ja" or " " in parts[0].text[-1:] + parts[1].text[:1] else " "
    assert heard.text == apart.join(part.text for part in parts)
    assert heard.usage == parts[0].usage + parts[1].usage
    assert heard.duration == 41


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no audio", "audio clip 0 is corrupt: missing RIFF/WAVE header"),
        (
            wav(noise(), subtype="PCM_24"),
            "audio clip 0 is corrupt: unsupported WAV format 1/24-bit",
        ),
        (wav(noise())[:-100], "audio clip 0 is corrupt: declared WAV chunk exceeds payload"),
        (
            wav(np.full(160, np.nan, np.float32), subtype="FLOAT"),
            "audio clip 0 contains a non-finite sample at frame 0",
        ),
        (
            wav(np.zeros(601, np.float32), 1),
            "audio source duration samples limit exceeded: actual 601, maximum 600",
        ),
    ],
)
def test_3_refusals_of_a_recording_in_their_own_words(gemma4, data, text):
    with pytest.raises(InputRejected) as caught:
        gemma4.transcribe_recording(data, FEW)
    assert str(caught.value) == text


@pytest.mark.parametrize("after", [0, 1, 4, 11, 12])
def test_5_3_a_recording_may_be_given_up_at_any_time(provider, after):
    asked = itertools.count()
    options = TranscribeOptions(max_tokens=500, cancelled=lambda: next(asked) >= after)
    with pytest.raises(GivenUp):
        provider.transcribe_recording(wav(noise(2.0)), options)
    once, again = (provider.transcribe([noise()], FEW) for _ in range(2))
    assert once == again


def test_a_listener_may_end_the_answer(gemma4):
    def hang_up(piece):
        raise ConnectionError(piece)

    with pytest.raises(ConnectionError):
        gemma4.transcribe([noise()], TranscribeOptions(max_tokens=40, on_text=hang_up))
    assert gemma4.transcribe([noise()], FEW) == gemma4.transcribe([noise()], FEW)


def test_questions_and_answers_stay_within_the_context(copied):
    folder = copied()
    config = json.loads((folder / "config.json").read_text())
    (within,) = registry.load(folder).transcribe([noise()], TranscribeOptions(max_tokens=1))
    most = within.usage.input_tokens + 5
    change(
        folder / "config.json",
        text_config={**config["text_config"], "max_position_embeddings": most},
    )
    provider = registry.load(folder)
    (heard,) = provider.transcribe([noise()], TranscribeOptions(max_tokens=10**9))
    assert heard.usage.input_tokens + heard.usage.output_tokens <= most
    text = f"context limit exceeded for gemma4: actual {most + 20}, maximum {most}"
    with pytest.raises(InputRejected, match=text):
        provider.transcribe([noise(2.0)], FEW)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "voxtral", "audio_config": {"x": 1}}, "Model type voxtral not supported"),
        ({"model_type": "d1_omni", "audio_config": {"x": 1}}, ""),
        ({"audio_config": {"x": 1}}, ""),
        ({"model_type": 5, "audio_config": {"x": 1}}, ""),
        ({"model_type": "../gemma4", "audio_config": {"x": 1}}, ""),
    ],
)
def test_other_model_types_are_refused_by_name(tmp_path, config, reason):
    pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")
    (tmp_path / "config.json").write_text(json.dumps(config))
    subject = f"does not load the model type '{config.get('model_type')}' as one that hears"
    found = refusal(tmp_path)
    assert found.startswith(f"{tmp_path}: mlx-vlm {subject}: ")
    assert reason in found


def test_without_weights_the_reason_is_given(copied):
    folder = copied()
    (folder / "model.safetensors").unlink()
    assert "No safetensors found" in refusal(folder)


def test_a_checkpoint_that_does_not_hear_fails_its_start(copied):
    folder = copied()
    template = "{{ messages[0]['content'][0]['text'] }}"  # no place for the clip
    change(folder / "tokenizer_config.json", chat_template=template)
    text = "does not load the model type 'gemma4' as one that hears: noise and silence are the same"
    assert text in refusal(folder)


def test_a_tower_that_config_denies_is_no_tower(copied):
    assert "describes no known model family" in refusal(copied(audio_config=None))


def test_an_answer_that_is_told_from_its_thoughts_at_the_end_is_refused(copied, monkeypatch):
    from mlx_vlm.models.gemma4 import Gemma4Processor

    monkeypatch.setattr(Gemma4Processor, "clean_output", str, raising=False)
    assert "its answer is told from its thoughts only when it has ended" in refusal(copied())


EVIL = """
from pathlib import Path
from transformers import PreTrainedTokenizerFast
Path(__file__).with_name("ran").touch()
class Evil(PreTrainedTokenizerFast): pass
"""


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_code_of_a_checkpoint_runs(copied, family):
    folder = copied(family)
    (folder / "evil.py").write_text(EVIL)
    evil = dict.fromkeys(("AutoConfig", "AutoProcessor", "AutoFeatureExtractor"), "evil.Evil")
    evil["AutoTokenizer"] = ["evil.Evil", "evil.Evil"]
    for file in ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json"):
        change(folder / file, auto_map=evil)
    change(folder / "config.json", auto_map=evil)
    if family == "inkling":  # whose loader would run it
        assert "config.json brings code of its own" in refusal(folder)
    else:
        assert registry.load(folder).info.family == family
    assert not (folder / "ran").exists()


def test_no_model_of_a_checkpoint_runs(copied):
    folder = copied(model_file="evil.py")
    (folder / "evil.py").write_text(EVIL)
    assert "config.json brings code of its own" in refusal(folder)
    assert not (folder / "ran").exists()


def test_without_the_extra_the_reason_is_given(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "gemma4", "audio_config": {"x": 1}}')
    monkeypatch.setitem(sys.modules, "mlx_vlm", None)
    assert "pip install 'voxqueue[chat]'" in refusal(tmp_path)
