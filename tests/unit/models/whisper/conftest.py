"""Random Whisper checkpoints in every layout, real ones where they are pulled, and real speech."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import soxr
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models import catalog
from models.backend import mx
from models.base import CheckpointError

ROOT = Path(__file__).parents[4]
STATE, HEADS, MELS, TEXT_CTX = 16, 2, 80, 64
MULTILINGUAL, ENGLISH = 51_865, 51_864  # sizes of the vocabularies
CONTROLS = ("<|endoftext|>", "<|startoftranscript|>")
TASKS = (
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
LANGUAGES = ("<|en|>", "<|fr|>", "<|yue|>")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    vocab: int = MULTILINGUAL
    mels: int = MELS
    audio_layers: int = 2
    text_layers: int = 1


def native_tensors(sizes: Sizes, seed: int = 3) -> Arrays:
    """Random weights under their native names, in float16 as published."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 0.2) -> np.ndarray:
        return rng.normal(0, scale, shape).astype(np.float16)

    def norm(name: str) -> Arrays:
        return {f"{name}.weight": normal(STATE) + np.float16(1), f"{name}.bias": normal(STATE)}

    def attention(name: str) -> Arrays:
        parts = {
            f"{name}.{p}.weight": normal(STATE, STATE) for p in ("query", "key", "value", "out")
        }
        return (
            parts
            | {f"{name}.{p}.bias": normal(STATE) for p in ("query", "value", "out")}
            | norm(f"{name}_ln")
        )

    def block(name: str, attentions: tuple[str, ...]) -> Arrays:
        found = norm(f"{name}.mlp_ln")
        for kind in attentions:
            found |= attention(f"{name}.{kind}")
        for layer, shape in (("mlp1", (4 * STATE, STATE)), ("mlp2", (STATE, 4 * STATE))):
            found |= {
                f"{name}.{layer}.weight": normal(*shape),
                f"{name}.{layer}.bias": normal(shape[0]),
            }
        return found

    tensors = {
        "encoder.conv1.weight": normal(STATE, 3, sizes.mels, scale=0.1),
        "encoder.conv1.bias": normal(STATE),
        "encoder.conv2.weight": normal(STATE, 3, STATE),
        "encoder.conv2.bias": normal(STATE),
        "decoder.token_embedding.weight": normal(sizes.vocab, STATE),
        "decoder.positional_embedding": normal(TEXT_CTX, STATE),
    }
    tensors |= norm("encoder.ln_post") | norm("decoder.ln")
    for i in range(sizes.audio_layers):
        tensors |= block(f"encoder.blocks.{i}", ("attn",))
    for i in range(sizes.text_layers):
        tensors |= block(f"decoder.blocks.{i}", ("attn", "cross_attn"))
    return tensors


def write_tokenizer(path: Path, languages: tuple[str, ...] = LANGUAGES) -> None:
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t in (*CONTROLS, *languages, *TASKS)]
    )
    tokenizer.save(str(path / "tokenizer.json"))


def _prepare(path: Path, config: dict[str, object]) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    write_tokenizer(path)
    return path


def write_native(path: Path, tensors: Arrays) -> Path:
    _prepare(
        path,
        {
            "n_audio_head": HEADS,
            "n_text_head": HEADS,
            "n_audio_state": STATE,
            "n_text_state": STATE,
        },
    )
    mx.save_safetensors(str(path / "weights.safetensors"), _mlx(tensors))
    return path


HF_NAMES = {
    "attn_ln": "self_attn_layer_norm", "cross_attn_ln": "encoder_attn_layer_norm", "mlp_ln": "final_layer_norm",
    "attn": "self_attn", "cross_attn": "encoder_attn", "query": "q_proj", "key": "k_proj", "value": "v_proj",
    "out": "out_proj", "mlp1": "fc1", "mlp2": "fc2", "blocks": "layers", "ln_post": "layer_norm", "ln": "layer_norm",
    "token_embedding": "embed_tokens", "positional_embedding": "embed_positions.weight",
}  # fmt: skip


def hugging_face_tensors(tensors: Arrays) -> Arrays:
    found = {}
    for name, value in tensors.items():
        words = ".".join(HF_NAMES.get(word, word) for word in name.split("."))
        found[f"model.{words}"] = value.swapaxes(1, 2) if value.ndim == 3 else value
    found["proj_out.weight"] = tensors["decoder.token_embedding.weight"]
    return found


def write_hugging_face(path: Path, tensors: Arrays, shards: int = 1) -> Path:
    config = {
        "model_type": "whisper",
        "d_model": STATE,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
    }
    _prepare(path, config)
    items = sorted(hugging_face_tensors(tensors).items())
    if shards == 1:
        mx.save_safetensors(str(path / "model.safetensors"), _mlx(dict(items)))
        return path
    index = {}
    for i in range(shards):
        part, file = dict(items[i::shards]), f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mx.save_safetensors(str(path / file), _mlx(part))
        index |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return path


def ctranslate2_variables(tensors: Arrays) -> Arrays:
    """The inverse of the reader: q, k, v stacked, a zero key bias, torch's order of convolutions."""
    zero = np.zeros(STATE, np.float16)

    def linear(target: str, *sources: str) -> Arrays:
        weights = [tensors[f"{source}.weight"] for source in sources]
        biases = [tensors.get(f"{source}.bias", zero) for source in sources]
        return {
            f"{target}/weight": np.concatenate(weights),
            f"{target}/bias": np.concatenate(biases),
        }

    def norm(target: str, source: str) -> Arrays:
        return {
            f"{target}/layer_norm/gamma": tensors[f"{source}.weight"],
            f"{target}/layer_norm/beta": tensors[f"{source}.bias"],
        }

    found = {}
    for conv in ("conv1", "conv2"):
        found[f"encoder/{conv}/weight"] = tensors[f"encoder.{conv}.weight"].swapaxes(1, 2)
        found[f"encoder/{conv}/bias"] = tensors[f"encoder.{conv}.bias"]
    found |= norm("encoder", "encoder.ln_post") | norm("decoder", "decoder.ln")
    found["decoder/embeddings/weight"] = tensors["decoder.token_embedding.weight"]
    found["decoder/position_encodings/encodings"] = tensors["decoder.positional_embedding"]
    for name in sorted({n.rsplit(".", 2)[0] for n in tensors if n.endswith("mlp1.weight")}):
        side, _, i = name.split(".")
        to = f"{side}/layer_{i}"
        found |= linear(
            f"{to}/self_attention/linear_0",
            *(f"{name}.attn.{p}" for p in ("query", "key", "value")),
        )
        found |= linear(f"{to}/self_attention/linear_1", f"{name}.attn.out")
        found |= norm(f"{to}/self_attention", f"{name}.attn_ln") | norm(
            f"{to}/ffn", f"{name}.mlp_ln"
        )
        found |= linear(f"{to}/ffn/linear_0", f"{name}.mlp1") | linear(
            f"{to}/ffn/linear_1", f"{name}.mlp2"
        )
        if side == "decoder":
            found |= linear(f"{to}/attention/linear_0", f"{name}.cross_attn.query")
            found |= linear(
                f"{to}/attention/linear_1", *(f"{name}.cross_attn.{p}" for p in ("key", "value"))
            )
            found |= linear(f"{to}/attention/linear_2", f"{name}.cross_attn.out")
            found |= norm(f"{to}/attention", f"{name}.cross_attn_ln")
    return found


def write_ctranslate2(path: Path, variables: Arrays) -> Path:
    _prepare(path, {"suppress_ids": [], "suppress_ids_begin": []})
    codes = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}

    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    settings = {f"{side}/num_heads": np.array(HEADS, np.int16) for side in ("encoder", "decoder")}
    everything = variables | settings
    data = struct.pack("<I", 6) + string("WhisperSpec") + struct.pack("<II", 3, len(everything))
    for name, value in everything.items():
        data += string(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        data += struct.pack("<BI", codes[value.dtype.name], value.nbytes) + value.tobytes()
    aliases = (
        struct.pack("<I", 1)
        + string("decoder/projection/weight")
        + string("decoder/embeddings/weight")
    )
    (path / "model.bin").write_bytes(data + aliases)
    return path


def _mlx(tensors: Arrays) -> dict[str, mx.array]:
    return {name: mx.array(np.ascontiguousarray(value)) for name, value in tensors.items()}


@pytest.fixture
def noise() -> np.ndarray:
    """Two seconds of loud noise: a random model makes some text of it."""
    return np.random.default_rng(5).normal(0, 0.1, 32_000).astype(np.float32)


@pytest.fixture(scope="session")
def speech() -> Callable[[str], np.ndarray]:
    folder = Path(os.environ.get("VOXQUEUE_TEST_AUDIO", ROOT.parent / "shared" / "audio"))
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}: set VOXQUEUE_TEST_AUDIO")

    def read(name: str) -> np.ndarray:
        samples, rate = soundfile.read(folder / name, dtype="float32")
        return soxr.resample(samples, rate, 16_000)

    return read


@pytest.fixture(scope="session")
def checkpoint() -> Callable[[str], Path]:
    """The directory of a pulled model."""

    def find(name: str) -> Path:
        try:
            return catalog.checkpoint_path(name)
        except CheckpointError as error:
            pytest.skip(str(error))

    return find


@pytest.fixture(scope="session")
def build() -> SimpleNamespace:
    """The functions that make and write random checkpoints."""
    return SimpleNamespace(
        sizes=Sizes,
        tensors=native_tensors,
        native=write_native,
        hugging_face=write_hugging_face,
        ctranslate2=write_ctranslate2,
        variables=ctranslate2_variables,
        tokenizer=write_tokenizer,
        multilingual=MULTILINGUAL,
        english=ENGLISH,
    )
