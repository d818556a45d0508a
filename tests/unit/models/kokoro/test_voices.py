from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.base import CheckpointError, ModelError
from models.kokoro.voices import Voices


@pytest.fixture
def folder(tmp_path):
    for n, name in enumerate(["af_heart", "am_one", "bad name"]):
        pack = np.arange(10, dtype=np.float32).reshape(10, 1, 1) + np.zeros((1, 1, 4)) + 100 * n
        mx.save_safetensors(str(tmp_path / f"{name}.safetensors"), {"voice": mx.array(pack)})
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("am_one", "am_one"),
        (" am_one\n", "am_one"),
        (None, "af_heart"),
        ("", "af_heart"),
        ("nobody", "af_heart"),
        ("bad name", "af_heart"),
        ("../af_heart", "af_heart"),
        ("am_one.safetensors", "af_heart"),
    ],
)
def test_choice(folder, asked, chosen):
    assert Voices(folder, style=2).choose(asked) == chosen


@pytest.mark.parametrize(("phonemes", "row"), [(1, 0), (5, 4), (10, 9), (510, 9), (0, 0)])
def test_the_row_of_a_length(folder, phonemes, row):
    assert np.array(Voices(folder, style=2).style("am_one", phonemes)).tolist() == [[100 + row] * 4]


def test_names_are_listed(folder):
    assert Voices(folder, style=2).names == ("af_heart", "am_one")


def test_a_missing_default_is_an_error_of_the_model(tmp_path):
    voices = Voices(tmp_path, style=2)
    with pytest.raises(ModelError, match="af_heart"):
        voices.style(voices.choose("nobody"), 5)


@pytest.mark.parametrize("tensors", [{"other": mx.zeros(1)}, {"voice": mx.zeros((10, 1, 3))}])
def test_a_pack_at_fault_is_named(tmp_path, tensors):
    mx.save_safetensors(str(tmp_path / "af_heart.safetensors"), tensors)
    with pytest.raises(CheckpointError, match="af_heart"):
        Voices(tmp_path, style=2).style("af_heart", 1)
