"""Chat checkpoints that any machine can make: true shapes, random weights, an alphabet to speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

SPECIALS = ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<boa>", "<eoa>"]
LETTERS = [chr(code) for code in range(32, 127)] + ["\n"]
TEXT_IDS = 128  # ids of text; what follows belongs to pictures and sound
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
GEMMA = {
    "model_type": "gemma3n",
    "vocab_size": TEXT_IDS + 256,
    "hidden_size": 32,
    "image_token_id": TEXT_IDS + 1,
    "audio_token_id": TEXT_IDS + 128 + 100,
    "boa_token_id": 5,
    "eoa_token_id": 6,
    "audio_soft_tokens_per_image": 188,
    "eos_token_id": [1, 4],
    "text_config": {
        "model_type": "gemma3n_text",
        "hidden_size": 32,
        "num_hidden_layers": 5,
        "intermediate_size": [64] * 5,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": TEXT_IDS + 256,
        "vocab_size_per_layer_input": TEXT_IDS,
        "laurel_rank": 8,
        "hidden_size_per_layer_input": 8,
        "sliding_window": 64,
        "activation_sparsity_pattern": [0.0] * 5,
        "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
        "altup_num_inputs": 2,
        "altup_coef_clip": 120.0,
    },
    "vision_config": {"hidden_size": 32, "vocab_size": 128, "vocab_offset": TEXT_IDS},
    "audio_config": {
        "input_feat_size": 128,
        "hidden_size": 32,
        "conf_num_attention_heads": 2,
        "conf_num_hidden_layers": 2,
        "sscp_conv_channel_size": [8, 4],
        "vocab_size": 128,
        "vocab_offset": TEXT_IDS + 128,
    },
}
PHI = {
    "model_type": "phi4mm",
    "vocab_size": TEXT_IDS + 1,
    "audio_token_index": TEXT_IDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "partial_rotary_factor": 1.0,
    "eos_token_id": 4,
    "tie_word_embeddings": True,
    "mm_hidden_size": 32,
    "vision_config": {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
    },
    "audio_processor": {
        "config": {
            "attention_dim": 32,
            "attention_heads": 2,
            "num_blocks": 2,
            "linear_units": 32,
            "ext_pw_out_channel": 32,
            "depthwise_seperable_out_channel": 32,
            "conv_channels": 32,
        }
    },
}


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of one letter a token, and its chat template."""
    save_tokenizer(folder, SPECIALS, unknown=SPECIALS[0], size=TEXT_IDS)
    settings = {"bos_token": {"content": "<bos>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_tokenizer(folder: Path, specials: list[str], *, unknown: str, size: int) -> dict[str, int]:
    """One letter a token; returns the ids. Some families write space and newline as bytes."""
    names = [*specials, *LETTERS, "\u0120", "\u010a"]
    names += [chr(0xC0 + n) for n in range(size - len(names))]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    return vocabulary


def write_checkpoint(folder: Path, config: dict[str, Any]) -> Path:
    """Made by mlx-vlm's own classes, without its eyes."""
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    save_random_weights(_blind_network(config), folder / "model.safetensors")
    return folder


def _blind_network(config: dict[str, Any]) -> Any:
    from mlx_vlm import utils

    parts, _ = utils.get_model_and_args(config)
    groups = ["text", "vision", "audio"]
    settings = parts.ModelConfig.from_dict(dict(config))
    network = parts.Model(utils.update_module_configs(settings, parts, config, groups))
    for name in {"vision_tower", "mm_projector"} & network.keys():
        setattr(network, name, None)
    return network


def save_random_weights(network: Any, file: Path, *, spread: float = 0.2) -> None:
    from mlx.utils import tree_flatten

    from models.backend import mx

    rng = np.random.default_rng(11)
    weights = {
        name: mx.array(rng.normal(0, spread, value.shape).astype(np.float32))
        if "norm" not in name and mx.issubdtype(value.dtype, mx.floating)
        else value
        for name, value in tree_flatten(network.parameters())
    }
    mx.save_safetensors(str(file), weights)
