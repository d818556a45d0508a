"""Every layout gives the same network; what is wrong with a checkpoint is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from models.backend import mx
from models.base import CheckpointError
from models.whisper import weights
from models.whisper.layouts import load_arrays


def outputs(path) -> tuple[np.ndarray, np.ndarray]:
    network, _, _ = weights.load(path)
    mel = np.random.default_rng(0).normal(0, 1, (2, 3000, network.dimensions.n_mels))
    audio = network.listen(mx.array(mel.astype(np.float32)))
    cache = network.decoder.new_cache(2, 8)
    states = network.decoder(mx.array([[7, 8, 9], [1, 2, 3]]), audio, cache)
    return np.array(audio), np.array(network.decoder.logits(states[:, -1]))


def assert_same(one, other, atol=0.0):
    for a, b in zip(outputs(one), outputs(other), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, atol=atol)


@pytest.fixture
def tensors(build):
    return build.tensors(build.sizes())


@pytest.fixture
def native(build, tmp_path, tensors):
    return build.native(tmp_path / "native", tensors)


@pytest.mark.parametrize("shards", [1, 3])
def test_hugging_face_equals_native(build, tmp_path, tensors, native, shards):
    other = build.hugging_face(tmp_path / "hf", tensors, shards)
    assert weights.load(other)[1] == "huggingface"
    assert_same(native, other)


def test_ctranslate2_equals_native(build, tmp_path, tensors, native):
    other = build.ctranslate2(tmp_path / "ct2", build.variables(tensors))
    assert weights.load(other)[1] == "ctranslate2"
    assert_same(native, other)


def test_ctranslate2_in_float32_equals_native(build, tmp_path, tensors, native):
    variables = {n: v.astype(np.float32) for n, v in build.variables(tensors).items()}
    assert_same(native, build.ctranslate2(tmp_path / "ct2", variables))


def test_ctranslate2_in_int8_equals_its_own_values_in_float32(build, tmp_path, tensors):
    exact, quantised = {}, {}
    for name, value in build.variables(tensors).items():
        if value.ndim == 2 and name.endswith("weight"):
            scale = (127 / np.abs(value).max(axis=1)).astype(np.float32)
            quantised[name] = np.rint(value * scale[:, None]).astype(np.int8)
            quantised[f"{name}_scale"] = scale
            exact[name] = quantised[name] / scale[:, None]
        else:
            exact[name] = quantised[name] = value
    one = build.ctranslate2(tmp_path / "exact", exact)
    assert_same(one, build.ctranslate2(tmp_path / "int8", quantised))


def test_mlx_quantised_weights_load(build, tmp_path, tensors):
    name = "decoder.token_embedding"
    plain, packed = dict(tensors), build.native(tmp_path / "q", tensors)
    padded = mx.array(np.tile(tensors[f"{name}.weight"].astype(np.float32), (1, 2)))
    parts = mx.quantize(padded, group_size=32, bits=8)
    stored = load_arrays(packed / "weights.safetensors")
    wide = {"weight": parts[0], "scales": parts[1], "biases": parts[2]}
    mx.save_safetensors(
        str(packed / "weights.safetensors"), stored | {f"{name}.{k}": v for k, v in wide.items()}
    )
    config = json.loads((packed / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": 8}
    (packed / "config.json").write_text(json.dumps(config))
    # 32 columns where the other tensors have 16: dequantised, and then found out
    with pytest.raises(CheckpointError, match=r"decoder\.positional_embedding .*, not \(64, 32\)"):
        weights.load(packed)
    assert plain[f"{name}.weight"].shape[1] == 16


def test_sizes_come_from_the_tensors(build, tmp_path):
    sizes = build.sizes(vocab=51_866, mels=128, audio_layers=3, text_layers=2)
    path = build.native(tmp_path / "turbo", build.tensors(sizes))
    found = weights.load(path)[0].dimensions
    assert (found.n_mels, found.n_audio_layer, found.n_text_layer) == (128, 3, 2)
    assert (found.n_vocab, found.n_audio_head, found.n_text_ctx) == (51_866, 2, 64)
    assert found.multilingual


def test_openai_names_of_the_mlp_are_known(build, tmp_path, tensors, native):
    renamed = {
        n.replace(".mlp1.", ".mlp.0.").replace(".mlp2.", ".mlp.2."): v for n, v in tensors.items()
    }
    assert_same(native, build.native(tmp_path / "openai", renamed))


def test_missing_tensors_are_named(build, tmp_path, tensors):
    del tensors["encoder.blocks.0.attn.query.bias"], tensors["decoder.ln.weight"]
    path = build.native(tmp_path / "short", tensors)
    with pytest.raises(CheckpointError, match=r"lacks tensors: decoder\.ln\.weight; encoder\.blo"):
        weights.load(path)


@pytest.mark.parametrize("name", ["encoder.conv1.weight", "decoder.token_embedding.weight"])
def test_a_missing_tensor_that_sizes_are_read_from_is_named(build, tmp_path, tensors, name):
    del tensors[name]
    with pytest.raises(CheckpointError, match=name):
        weights.load(build.native(tmp_path / "short", tensors))


def test_extra_tensors_are_named(build, tmp_path, tensors):
    tensors |= {f"adapter.{i}.weight": np.zeros(3, np.float16) for i in range(10)}
    path = build.native(tmp_path / "extra", tensors)
    with pytest.raises(CheckpointError, match=r"unknown tensors: adapter\.0\.weight.* and 2 more"):
        weights.load(path)


def test_wrong_shapes_are_named(build, tmp_path, tensors):
    tensors["encoder.blocks.1.mlp1.bias"] = np.zeros(5, np.float16)
    path = build.native(tmp_path / "wrong", tensors)
    with pytest.raises(CheckpointError, match=r"blocks\.1\.mlp1\.bias \(5,\), not \(64,\)"):
        weights.load(path)


def test_unknown_ctranslate2_variables_are_named(build, tmp_path, tensors):
    variables = build.variables(tensors) | {
        "decoder/layer_0/gate/weight": np.zeros((2, 2), np.float16)
    }
    with pytest.raises(CheckpointError, match="decoder/layer_0/gate/weight"):
        weights.load(build.ctranslate2(tmp_path / "ct2", variables))


@pytest.mark.parametrize("keep", [0, 3, 100, 20_000])
def test_a_cut_ctranslate2_file_is_an_error(build, tmp_path, tensors, keep):
    file = build.ctranslate2(tmp_path / "ct2", build.variables(tensors)) / "model.bin"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"model\.bin"):
        weights.load(file.parent)


def test_a_cut_safetensors_file_is_an_error(native):
    file = native / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"weights\.safetensors"):
        weights.load(native)


def test_a_missing_shard_is_an_error(build, tmp_path, tensors):
    path = build.hugging_face(tmp_path / "hf", tensors, 2)
    (path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        weights.load(path)


def test_a_shard_outside_the_directory_is_refused(build, tmp_path, tensors):
    path = build.hugging_face(tmp_path / "hf", tensors, 2)
    index = {"weight_map": {"model.encoder.conv1.weight": "../other/model.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="no file name"):
        weights.load(path)


def test_no_weights_at_all_is_an_error(native):
    (native / "weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no weights"):
        weights.load(native)
