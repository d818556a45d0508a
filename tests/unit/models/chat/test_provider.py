"""Chat models as providers: tiny networks of the true shape, from samples to text."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import soundfile

from models import registry
from models.base import (
    Capability,
    CheckpointError,
    CountingProvider,
    GivenUp,
    InputRejected,
    NotSupported,
    RecordingProvider,
    SpeechProvider,
    TranscribeOptions,
)
from models.chat_audio import _clip, _question, load
from models.preprocess.features import phi4mm
from models.preprocess.frames import phi4mm_tokens

FEW = TranscribeOptions(max_tokens=12)


@pytest.fixture(scope="module", params=["gemma", "phi"])
def provider(request):
    loaded = registry.load(request.getfixturevalue(f"{request.param}_checkpoint"))
    yield loaded
    loaded.close()


def sound(seconds=1.0, hertz=440):
    time = np.arange(round(seconds * 16_000)) / 16_000
    return (0.25 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def test_it_is_a_speech_provider(provider):
    assert isinstance(provider, SpeechProvider)
    assert isinstance(provider, RecordingProvider)
    assert isinstance(provider, CountingProvider)
    assert (provider.info.streams, provider.info.translates) == (True, False)
    assert provider.info.capabilities == {Capability.STT}
    assert provider.info.family in ("gemma3n", "phi4mm")
    assert (provider.sample_rate, provider.window_seconds) == (16_000, 30.0)
    assert provider.info.details["policy"].startswith("pinned default")


def test_tokens_to_text_with_true_counts(provider):
    first, second = provider.transcribe([sound(), sound(2.0)], FEW)
    assert first.usage.output_tokens == 12
    clip = 190 if provider.info.family == "gemma3n" else 13  # ceil(98 frames / 8)
    words = "\n\n\n\n" if provider.info.family == "gemma3n" else ""
    around = len(words) + len("Transcribe audio to text") + len("user\n\nmodel\n") + 4
    assert first.usage.input_tokens == around + clip
    longer = 0 if provider.info.family == "gemma3n" else 25 - 13
    assert second.usage.input_tokens == first.usage.input_tokens + longer


def test_greedy_answers_repeat(provider):
    once, again = (provider.transcribe([sound()], FEW) for _ in range(2))
    assert once == again


def test_the_audio_is_heard(provider):
    tones = [sound(1.0, hertz) for hertz in (100, 440, 1_000, 3_000, 6_000)]
    noise = np.random.default_rng(1).uniform(-1, 1, 16_000).astype(np.float32)
    heard = [tuple(islice(tokens(provider, window), 12)) for window in [*tones, noise]]
    assert len(set(heard)) > 1


def tokens(provider, window, options=FEW):
    (prepared,) = provider._prepared(provider._windows, [_clip(window)], options)
    return provider._answering.tokens(_question(prepared.prefill.payload), options)


def test_streamed_pieces_are_the_text_one_at_a_time(provider):
    for window in (sound(), sound(0.5, 3_000)):
        pieces = []
        options = TranscribeOptions(max_tokens=40, language="en", on_text=pieces.append)
        (whole,) = provider.transcribe([window], options)
        assert "".join(pieces) == whole.text
        assert all(pieces)
        assert whole.language == "en"


def test_a_listener_may_end_the_answer(provider):
    def hang_up(piece):
        raise ConnectionError(piece)

    with pytest.raises(ConnectionError):
        provider.transcribe([sound()], TranscribeOptions(max_tokens=40, on_text=hang_up))
    assert provider.transcribe([sound()], FEW)[0].usage.output_tokens == 12


def test_no_tokens_are_no_text(provider):
    (nothing,) = provider.transcribe([sound()], TranscribeOptions(max_tokens=0))
    assert (nothing.text, nothing.usage.output_tokens) == ("", 0)
    assert nothing.usage.input_tokens > 0


def test_a_stop_token_ends_the_answer(provider, monkeypatch):
    spoken = list(tokens(provider, sound()))
    last = (
        next(token for token in spoken[1:] if token != spoken[0]) if len(set(spoken)) > 1 else None
    )
    if last is None:
        pytest.skip("the random network says one token only")
    stopping = replace(provider._answering, stop=frozenset({last}))
    monkeypatch.setattr(provider, "_answering", stopping)
    assert list(tokens(provider, sound())) == spoken[: spoken.index(last)]


def test_temperature_is_taken(provider):
    hot = TranscribeOptions(max_tokens=12, temperature=5.0)
    runs = {tuple(tokens(provider, sound(), hot)) for _ in range(4)}
    assert len(runs) > 1


def test_too_short_to_hear_anything(provider):
    (nothing,) = provider.transcribe([np.zeros(500, np.float32)], FEW)
    assert (nothing.text, nothing.usage.input_tokens) == ("", 0)


def test_windows_of_the_wrong_shape(provider):
    for window in (np.zeros(480_001, np.float32), np.zeros((2, 16_000), np.float32)):
        with pytest.raises(InputRejected, match="at most 480000 mono samples"):
            provider.transcribe([window], FEW)


def test_what_it_does_not_do(provider):
    with pytest.raises(NotSupported, match="does not translate"):
        provider.transcribe([sound()], TranscribeOptions(task="translate"))
    with pytest.raises(NotSupported, match="does not speak"):
        provider.plan_speech("hello")
    with pytest.raises(NotSupported, match="does not speak"):
        provider.synthesize([], voice=None, speed=1.0)


def test_eyes_are_not_loaded(provider):
    assert provider._answering.network.vision_tower is None


@pytest.fixture
def copied(gemma_checkpoint, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(gemma_checkpoint, folder)
    return folder


def test_a_policy_of_the_checkpoint_fails_or_binds_the_start(copied):
    (copied / "preprocessor_config.json").write_text('{"sampling_rate": "16000"}')
    with pytest.raises(CheckpointError) as caught:
        load(copied, "tiny")
    assert str(caught.value) == (
        "audio source context failed for clip 0: invalid loaded audio processor config: "
        "/sampling_rate must be a non-negative integer, got string"
    )
    (copied / "preprocessor_config.json").write_text('{"max_audio_duration": 5}')
    assert load(copied, "tiny").window_seconds == 5.0


def test_weights_that_do_not_fit_are_named(copied):
    config = json.loads((copied / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 6
    config["text_config"]["intermediate_size"] = [64] * 6
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="copy"):
        load(copied, "tiny")
    config["text_config"]["layer_types"] = ["sliding_attention"] * 5 + ["full_attention"]
    config["text_config"]["activation_sparsity_pattern"] = [0.0] * 6
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"Missing .* parameters"):
        load(copied, "tiny")
    (copied / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"there is no \.safetensors file"):
        load(copied, "tiny")


def change(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"audio_soft_tokens_per_image": 100},
        {"audio_soft_tokens_per_image": "188"},
        {"boa_token_id": "x"},
        {"audio_token_id": None},
        {"audio_token_id": 10**6},  # which the network would look up beyond its memory
        {"eos_token_id": "x"},
        {"max_position_embeddings": "x"},
        {"text_config": [1]},
    ],
)
def test_a_config_that_fits_no_question_fails_the_start(copied, changes):
    change(copied / "config.json", **changes)
    with pytest.raises(CheckpointError, match="copy: "):
        load(copied, "tiny")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ nope.x.y }}", "UndefinedError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("hello", "ordered audio sentinel 1 is missing"),
        ("{{ messages[0].content * 2 }}", "ordered audio sentinel 1 is out of sequence"),
    ],
)
def test_6_a_template_that_cannot_place_the_clip_fails_the_start(copied, template, reason):
    change(copied / "tokenizer_config.json", chat_template=template)
    with pytest.raises(CheckpointError, match=reason):
        load(copied, "tiny")


@pytest.mark.parametrize("share", [0, 2])
def test_weights_that_cannot_be_read_fail_the_start(copied, share):
    file = copied / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // share] if share else b"junk" * 99)
    with pytest.raises(CheckpointError, match="load_safetensors"):
        load(copied, "tiny")


@pytest.mark.parametrize(
    "name",
    ["config.json", "processor_config.json", "tokenizer_config.json", "generation_config.json"],
)
def test_4_1_a_file_too_deep_to_read_fails_the_start(copied, name):
    (copied / name).write_text("[" * 200_000)
    with pytest.raises(CheckpointError, match="recursion"):
        registry.load(copied)


def test_a_start_counts_nothing(gemma_checkpoint):
    provider = registry.load(gemma_checkpoint)
    assert not any(provider.counts().values())
    provider.close()


@pytest.mark.parametrize("temperature", [-1.0, 1e-40, 1e30])
def test_odd_temperatures_are_taken(provider, temperature):
    options = TranscribeOptions(max_tokens=3, temperature=temperature)
    assert provider.transcribe([sound()], options)[0].usage.output_tokens in range(4)


def test_the_revision_follows_the_files(copied):
    before = load(copied, "tiny").info.revision
    (copied / "generation_config.json").write_text('{"eos_token_id": 1}')
    assert load(copied, "tiny").info.revision != before


def test_without_the_extra_the_reason_is_given(tmp_path, tokenizer_files, monkeypatch):
    pytest.importorskip("jinja2", reason="needs the extra: pip install 'voxqueue[chat]'")
    tokenizer_files(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gemma3n", "eos_token_id": 1}')
    monkeypatch.setitem(sys.modules, "mlx_vlm", None)
    with pytest.raises(CheckpointError, match=r"pip install 'voxqueue\[chat\]'"):
        load(tmp_path, "tiny")


@pytest.mark.parametrize("model_type", ["gemma3n", "phi4mm", "phi4_multimodal"])
def test_the_registry_knows_chat_models_that_hear(tmp_path, model_type):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert registry.detect(tmp_path) == "chat_audio"


def test_chat_models_come_before_whisper():
    names = [family.name for family in registry.FAMILIES]
    assert names.index("chat_audio") < names.index("whisper")


def test_4_6_phi4mm_features_are_those_of_mlx_vlm():
    pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")
    from mlx_vlm.models.phi4mm import Phi4MMAudioFeatureExtractor

    samples = sound(0.5, 440) + 0.3 * sound(0.5, 2_500)
    theirs = Phi4MMAudioFeatureExtractor()([(samples, 16_000)])
    (ours,) = phi4mm.features([phi4mm.Clip(samples=samples, sample_rate=16_000)])
    np.testing.assert_allclose(ours, np.array(theirs["input_audio_embeds"])[0], atol=2e-3)
    assert phi4mm_tokens(len(ours)) == int(theirs["audio_embed_sizes"][0])


def test_many_windows_keep_their_order(provider):
    windows = [sound(0.2 * n, 200 * n) for n in range(1, 13)]
    windows[4] = np.zeros(10, np.float32)
    together = provider.transcribe(windows, FEW)
    alone = [provider.transcribe([window], FEW)[0] for window in windows]
    assert together == alone
    assert together[4].usage.input_tokens == 0


def test_5_4_windows_are_counted_once(provider):
    before = counters(provider)
    provider.transcribe([sound(), sound(0.5)], FEW)
    after = counters(provider)
    change = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    del change["preprocess_latency_seconds_total"]
    gemma = provider.info.family == "gemma3n"
    frames = 97 + 48 if gemma else 98 + 48
    assert change == {
        "source_seconds_total": 1.5,
        "source_samples_total": 24_000,
        "normalized_samples_total": 24_000,
        "feature_frames_total": frames,
        "effective_tokens_total": 2 * 188 if gemma else 13 + 6,
        "effective_prefill_tokens_total": pytest.approx(2 * 234 if gemma else 2 * 40 + 19, abs=4),
    }
    assert after["preprocess_inflight_host_bytes"] == 0


def counters(provider) -> dict[str, float]:
    lines = provider.metrics.render().splitlines()
    found = (line.removeprefix("mlxcel_audio_").rsplit(" ", 1) for line in lines if line[0] != "#")
    return {name: float(value) for name, value in found}


def test_bad_samples_are_the_requests_fault(provider):
    bad = sound()
    bad[77] = np.nan
    with pytest.raises(
        InputRejected, match="audio clip 0 contains a non-finite sample at frame 77"
    ):
        provider.transcribe([bad], FEW)
    assert provider.transcribe([sound()], FEW)[0].usage.output_tokens == 12


def test_a_failing_window_leaves_nothing_behind_for_the_next_call(provider):
    bad = np.full(16_000, np.inf, np.float32)
    with pytest.raises(InputRejected):
        provider.transcribe([bad, sound(), sound(0.3), sound(0.4)], FEW)
    (right,) = provider.transcribe([sound(2.0)], FEW)
    (again,) = provider.transcribe([sound(2.0)], FEW)
    assert right == again


def test_prompts_beyond_the_context_are_refused(copied):
    config = json.loads((copied / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 200
    (copied / "config.json").write_text(json.dumps(config))
    provider = load(copied, "tiny")
    text = "audio prepared-prefill context limit exceeded for gemma3n: actual 234, maximum 200"
    with pytest.raises(InputRejected, match=text):
        provider.transcribe([sound()], FEW)
    provider.close()


def wav(samples, rate=16_000, subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


def test_a_recording_is_one_clip_with_its_own_numbers(provider):
    heard = provider.transcribe_recording(wav(sound(2.0), subtype="FLOAT"), FEW)
    (window,) = provider.transcribe([sound(2.0)], FEW)
    assert (heard.text, heard.usage) == (window.text, window.usage)
    assert heard.duration == 2.0
    assert heard.model == provider.info.name


def test_4_5_a_recording_is_resampled_as_the_family_does_it(provider):
    data = wav(sound(2.0)[:22_050], 22_050)  # 1 s, which Phi takes for 22050 samples at 16 kHz
    before = counters(provider)["normalized_samples_total"]
    heard = provider.transcribe_recording(data, FEW)
    after = counters(provider)["normalized_samples_total"]
    assert after - before == (16_000 if provider.info.family == "gemma3n" else 22_050)
    assert heard.duration == 1.0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"not audio at all", "audio clip 0 is corrupt: missing RIFF/WAVE header"),
        (b"", "audio clip 0 is empty"),
        (
            wav(sound(), subtype="PCM_24"),
            "audio clip 0 is corrupt: unsupported WAV format 1/24-bit",
        ),
        (wav(sound())[:-1000], "audio clip 0 is corrupt: declared WAV chunk exceeds payload"),
    ],
)
def test_3_refusals_of_a_recording_in_their_own_words(provider, data, text):
    with pytest.raises(InputRejected) as caught:
        provider.transcribe_recording(data, FEW)
    assert str(caught.value) == text


def test_4_3_a_recording_is_bounded_as_a_whole(provider):
    data = wav(np.zeros(16_000 * 31, np.float32))
    if provider.info.family == "phi4mm":  # 30 minutes
        assert provider.transcribe_recording(data, FEW).duration == 31
        return
    text = "audio source duration samples limit exceeded: actual 496000, maximum 480000"
    with pytest.raises(InputRejected, match=text):
        provider.transcribe_recording(data, FEW)


def test_a_recording_too_short_for_a_frame(provider):
    data = wav(np.zeros(300, np.float32))
    if provider.info.family == "gemma3n":
        heard = provider.transcribe_recording(data, FEW)
        assert (heard.text, heard.usage.input_tokens) == ("", 0)
        return
    with pytest.raises(InputRejected, match="audio feature preprocessing failed for phi4mm: audio"):
        provider.transcribe_recording(data, FEW)


@pytest.mark.parametrize("after", [0, 1, 5, 200])
def test_5_3_a_recording_may_be_given_up_at_any_time(provider, after):
    asked = itertools.count()
    options = TranscribeOptions(max_tokens=500, cancelled=lambda: next(asked) >= after)
    with pytest.raises(GivenUp):
        provider.transcribe_recording(wav(sound(5.0)), options)
    counts = provider.counts()
    assert counts["preprocess_queued_bytes"] == counts["preprocess_inflight_host_bytes"] == 0
    assert provider.transcribe_recording(wav(sound()), FEW).usage.output_tokens == 12


def test_an_answer_stays_within_the_context(copied):
    config = json.loads((copied / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 240
    (copied / "config.json").write_text(json.dumps(config))
    provider = load(copied, "tiny")
    heard = provider.transcribe_recording(wav(sound()), TranscribeOptions(max_tokens=10**9))
    assert heard.usage.input_tokens + heard.usage.output_tokens == 240
    provider.close()


def test_a_recording_beyond_the_checkpoint_s_own_byte_cap_is_refused(copied):
    (copied / "preprocessor_config.json").write_text(
        '{"mlxcel_audio_limits": {"max_encoded_bytes_per_request": 1000}}'
    )
    provider = load(copied, "tiny")
    with pytest.raises(InputRejected, match="audio queued-memory limit exceeded: request 32044"):
        provider.transcribe_recording(wav(sound()), FEW)
    provider.close()
