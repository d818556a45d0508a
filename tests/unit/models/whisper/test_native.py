"""What is written in the native layout is the same model, or nearly so in few bits."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from models.backend import mx
from models.base import TranscribeOptions
from models.whisper import native, provider, weights
from models.whisper.layouts import load_arrays

TEXT = (
    " And so my fellow Americans, ask not what your country can do for you,"
    " ask what you can do for your country."
)
MATRIX = "decoder.blocks.0.mlp2"  # of a random checkpoint the only ones that are wide enough


def heard(path) -> np.ndarray:
    """Of some noise, by the encoder."""
    network, _, _ = weights.load(path)
    mel = np.random.default_rng(0).normal(0, 1, (1, 3000, network.dimensions.n_mels))
    return np.array(network.listen(mx.array(mel.astype(np.float32))))


def words(text: str) -> list[str]:
    """Four bits cost punctuation and capitals."""
    return re.findall(r"\w+", text.lower())


@pytest.fixture
def written(build, tmp_path):
    """Writes a random checkpoint of a layout anew; both directories."""

    def write(layout="ctranslate2", **options):
        tensors = build.tensors(build.sizes())
        if layout == "ctranslate2":
            tensors = build.variables(tensors)
        source, target = getattr(build, layout)(tmp_path / "source", tensors), tmp_path / "target"
        target.mkdir()
        native.write(source, target, **options)
        return source, target

    return write


@pytest.mark.parametrize("layout", ["ctranslate2", "hugging_face", "native"])
def test_whole_it_is_the_same_model_in_any_layout(written, layout):
    source, target = written(layout)
    assert weights.load(target)[1] == "mlx"
    np.testing.assert_array_equal(heard(source), heard(target))


def test_the_sizes_are_written_under_their_published_names(written):
    _, target = written()
    config = json.loads((target / "config.json").read_text())
    assert (config["n_audio_head"], config["n_text_head"], config["n_vocab"]) == (2, 2, 51_865)
    assert "quantization" not in config


def test_positions_that_others_compute_are_left_out(written):
    _, target = written()
    assert "encoder.positional_embedding" not in load_arrays(target / "weights.safetensors")


@pytest.mark.parametrize(("bits", "far"), [(8, 0.05), (4, 0.3)])
def test_in_few_bits_it_is_nearly_the_same_model(written, bits, far):
    source, target = written(bits=bits)
    stored = load_arrays(target / "weights.safetensors")
    assert stored[f"{MATRIX}.weight"].shape == (16, 64 * bits // 32)
    assert {f"{MATRIX}.scales", f"{MATRIX}.biases"} <= stored.keys()
    exact, near = heard(source), heard(target)
    distance = np.abs(exact - near).max() / np.abs(exact).max()
    assert 0 < distance < far


@pytest.mark.parametrize(("bits", "form"), [(8, str), (4, words)])
def test_real_weights_in_few_bits_hear_the_same(checkpoint, speech, tmp_path, bits, form):
    native.write(checkpoint("whisper-base"), tmp_path, bits=bits)
    few = provider.load(tmp_path, "few")
    (text,) = few.transcribe([speech("jfk.wav")], TranscribeOptions(language="en"))
    assert form(text.text) == form(TEXT)
