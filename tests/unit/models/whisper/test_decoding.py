"""The search over a random network: bounds, prompts, languages, temperature."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.base import TranscribeOptions
from models.whisper import weights
from models.whisper.decoding import decode, detect_languages, prompt_tokens
from models.whisper.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def model(build, tmp_path_factory):
    path = build.native(tmp_path_factory.mktemp("w") / "native", build.tensors(build.sizes()))
    network, _, _ = weights.load(path)
    mels = np.random.default_rng(8).normal(0, 1, (3, 3000, 80)).astype(np.float32)
    tokenizer = Tokenizer.load(path, multilingual=True, size=network.dimensions.n_vocab)
    return network.decoder, network.listen(mx.array(mels)), tokenizer


def tokens(model, audio=None, **options) -> list[list[int]]:
    decoder, heard, tokenizer = model
    asked = TranscribeOptions(**options)
    heard = heard if audio is None else audio
    found = decode(decoder, heard, tokenizer, languages=["en"] * len(heard), options=asked)
    return [decoded.tokens for decoded in found]


def test_each_row_is_decoded_as_if_alone(model):
    _, audio, _ = model
    alone = [tokens(model, audio[row : row + 1])[0] for row in range(3)]
    assert tokens(model) == alone


@pytest.mark.parametrize(("asked", "most"), [(3, 3), (None, 32), (1000, 32)])
def test_length_is_bounded_by_the_request_and_half_the_context(model, asked, most):
    assert max(map(len, tokens(model, max_tokens=asked))) == most


def test_a_long_prompt_keeps_its_end_and_leaves_room(model):
    _, _, tokenizer = model
    asked = TranscribeOptions(prompt="x" * 500 + "the end")
    prompt = prompt_tokens(tokenizer, 64, language="en", options=asked)
    assert len(prompt) == 1 + 31 + 4
    assert tokenizer.decode(prompt[1:32]).endswith("the end")
    assert max(map(len, tokens(model, prompt=asked.prompt))) <= 64 - len(prompt)


def test_a_prompt_changes_the_answer(model):
    assert tokens(model, prompt="names") != tokens(model)


def test_sampling_differs_from_the_greedy_search_and_repeats_itself(model):
    sampled = tokens(model, temperature=1.0)
    assert sampled != tokens(model)
    assert sampled == tokens(model, temperature=1.0)


def test_timestamps_are_in_pairs_that_never_go_back(model):
    zero = model[2].first_timestamp
    for row in tokens(model, timestamps=True):
        times = [token for token in row if token >= zero]
        assert row[0] >= zero
        assert times == sorted(times)
    assert all(token < zero for row in tokens(model) for token in row)


def test_probabilities_are_probabilities(model):
    decoder, audio, tokenizer = model
    languages = ["en"] * len(audio)
    for found in decode(
        decoder, audio, tokenizer, languages=languages, options=TranscribeOptions()
    ):
        assert 0 <= found.no_speech_prob <= 1
        assert found.avg_logprob < 0


def test_language_is_one_of_the_vocabulary(model):
    decoder, audio, tokenizer = model
    found = detect_languages(decoder, audio, tokenizer)
    assert len(found) == len(audio)
    assert set(found) <= set(tokenizer.languages)


def test_an_english_only_model_hears_english(model, build, tmp_path):
    decoder, audio, _ = model
    build.tokenizer(tmp_path)
    english = Tokenizer.load(tmp_path, multilingual=False, size=build.english)
    assert set(detect_languages(decoder, audio, english)) == {"en"}
