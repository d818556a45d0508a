from __future__ import annotations

import json

import numpy as np
import pytest

from models.backend import mx
from models.base import CheckpointError
from models.kokoro.config import KokoroConfig
from models.kokoro.weights import Weights


def test_what_is_at_fault_is_named():
    weights = Weights({"a": mx.zeros((2, 3)), "extra": mx.zeros(1)}, source="file")
    weights.take("a", 3, 2)
    weights.take("b", 1)
    with pytest.raises(CheckpointError) as error:
        weights.finish()
    assert str(error.value) == (
        "file: a is [2, 3], expected [3, 2]; b is missing; extra is unknown"
    )


def test_many_faults_are_counted():
    weights = Weights({}, source="file")
    for n in range(500):
        weights.take(f"t{n}", 1)
    with pytest.raises(CheckpointError, match="and 488 more"):
        weights.finish()


def test_unused_tensors_are_no_fault():
    Weights({"bert.pooler.weight": mx.zeros(1), "x.position_ids": mx.zeros(1)}, source="").finish()


def test_weight_norm_is_folded_and_zero_rows_stay_finite():
    value = np.random.default_rng(0).normal(size=(3, 2, 5)).astype(np.float32)
    value[1] = 0
    gain = np.array([2, 0, 3], np.float32).reshape(3, 1, 1)
    weights = Weights({"c.weight_g": mx.array(gain), "c.weight_v": mx.array(value)}, source="")
    folded = np.array(weights.unfolded("c", 3, 2, 5))
    np.testing.assert_allclose(np.linalg.norm(folded.reshape(3, -1), axis=1), [2, 0, 3], rtol=1e-5)


def test_half_precision_becomes_single():
    assert Weights({"a": mx.zeros(2, mx.float16)}, source="").take("a", 2).dtype == mx.float32


@pytest.mark.parametrize("content", [None, b"", b"not safetensors"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "kokoro.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"kokoro\.safetensors"):
        Weights.read(path)


def test_config_faults_are_named(tmp_path):
    path = tmp_path / "config.json"
    with pytest.raises(CheckpointError, match=r"config\.json"):
        KokoroConfig.read(path)
    path.write_text(json.dumps({"hidden_dim": 512}))
    with pytest.raises(CheckpointError, match="no 'style_dim' in it"):
        KokoroConfig.read(path)
    path.write_text("[1]")
    with pytest.raises(CheckpointError, match="not the config"):
        KokoroConfig.read(path)
