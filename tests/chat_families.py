"""Checkpoints of the other families that hear: true shapes as mlx-vlm has them, random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chat_checkpoints import save_random_weights, save_tokenizer

SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>"]
IDS = 160
SPREAD = {
    "vocab_size": IDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 2_048,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
}
TURNS = (
    "{{% for m in messages %}}{start}{{{{ m['role'] }}}}\n"
    "{{% if m['content'] is string %}}{{{{ m['content'] }}}}{{% else %}}"
    "{{% for p in m['content'] %}}{{% if p['type'] == 'audio' %}}{audio}{{% else %}}"
    "{{{{ p.get('text') or p.get('content') }}}}{{% endif %}}{{% endfor %}}{{% endif %}}{end}\n"
    "{{% endfor %}}{{% if add_generation_prompt %}}{start}assistant\n{{% endif %}}"
)


@dataclass(frozen=True, kw_only=True)
class FamilyShape:
    named: dict[str, str]
    """Marks by the attribute under which the tokenizer has them."""
    marks: list[str] = field(default_factory=list)
    """Others."""
    audio: str
    """What the template writes for a clip."""
    config: Callable[[dict[str, int]], dict[str, Any]]
    """Of the ids of the marks."""
    files: dict[str, Any] = field(default_factory=dict)
    start: str = "<|im_start|>"
    end: str = "<|im_end|>"
    spread: float = 0.2
    """Of its weights; small ones drown the clip in some networks."""


def _gemma4(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "gemma4",
        "hidden_size": 32,
        **_gemma4_ids(ids),
        "text_config": {
            **_gemma4_text(),
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 8,
            "num_kv_shared_layers": 2,
        },
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "global_head_dim": 16,
            "position_embedding_size": 64,
        },
        "audio_config": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "subsampling_conv_channels": [8, 4],
            "output_proj_dims": 32,
        },
    }


def _gemma4_unified(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "gemma4_unified",
        "hidden_size": 32,
        **_gemma4_ids(ids),
        "text_config": {**_gemma4_text(), "model_type": "gemma4_unified_text"},
        "vision_config": {"mm_embed_dim": 32, "mm_posemb_size": 16, "output_proj_dims": 32},
        "audio_config": {"model_type": "gemma4_unified_audio"},
    }


def _gemma4_ids(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "vocab_size": IDS,
        "image_token_id": ids["<|image|>"],
        "audio_token_id": ids["<|audio|>"],
        "video_token_id": ids["<|video|>"],
        "boa_token_id": ids["<|audio>"],
        "eoa_token_id": ids["<audio|>"],
        "eos_token_id": [1, ids["<turn|>"]],
    }


def _gemma4_text() -> dict[str, Any]:
    return {
        **SPREAD,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "intermediate_size": 64,
        "global_head_dim": 16,
        "vocab_size_per_layer_input": IDS,
        "sliding_window": 64,
    }


def _qwen3_omni(ids: dict[str, int]) -> dict[str, Any]:
    text = {
        **SPREAD,
        "intermediate_size": 32,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 16,
        "rope_scaling": {
            "rope_type": "default",
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    }
    return {
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": False,
        "eos_token_id": ids["<|im_end|>"],
        "thinker_config": {
            "text_config": text,
            "audio_token_id": ids["<|audio_pad|>"],
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
            "vision_config": {
                "depth": 1,
                "hidden_size": 32,
                "intermediate_size": 32,
                "out_hidden_size": 32,
                "num_heads": 2,
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0],
            },
            "audio_config": {
                "d_model": 32,
                "encoder_layers": 2,
                "num_hidden_layers": 2,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 32,
                "output_dim": 32,
                "downsample_hidden_size": 8,
            },
        },
        "talker_config": {"text_config": text, "code_predictor_config": {}},
        "code2wav_config": {},
    }


def _minicpmo(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "minicpmo",
        **SPREAD,
        "intermediate_size": 64,
        "rope_scaling": {"type": "default", "mrope_section": [4, 2, 2]},
        "eos_token_id": [ids["<|im_end|>"]],
        "init_tts": False,
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 28,
        },
        "audio_config": {
            "d_model": 32,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 128,
        },
    }


def _nemotron(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "NemotronH_Nano_Omni_Reasoning_V3",
        "eos_token_id": ids["<|im_end|>"],
        "img_context_token_id": ids["<image>"],
        "video_context_token_id": ids["<video>"],
        "sound_context_token_id": ids["<so_embedding>"],
        "projector_hidden_size": 32,
        "vit_hidden_size": 32,
        "llm_config": {
            **SPREAD,
            "model_type": "nemotron_h",
            "intermediate_size": 64,
            "hybrid_override_pattern": "M*",
            "attention_bias": False,
            "mamba_num_heads": 2,
            "mamba_head_dim": 32,
            "mamba_proj_bias": False,
            "ssm_state_size": 16,
            "conv_kernel": 4,
            "n_groups": 1,
            "mlp_bias": False,
            "layer_norm_epsilon": 1e-5,
            "use_bias": False,
            "use_conv_bias": True,
        },
        "vision_config": {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_resolution": 64,
            "image_size": 64,
        },
        "sound_config": {
            "hidden_size": 32,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "intermediate_size": 64,
            "subsampling_conv_channels": 8,
            "projection_hidden_size": 32,
        },
    }


def _inkling(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "inkling_mm_model",
        "vocab_size": IDS,
        "eos_token_id": [ids["<|im_end|>"]],
        "audio_token_id": ids["<|unused_200053|>"],
        "image_token_id": ids["<|unused_200054|>"],
        "text_config": {
            **SPREAD,
            "swa_num_attention_heads": 2,
            "swa_num_key_value_heads": 1,
            "swa_head_dim": 16,
            "sliding_window_size": 64,
            "layer_types": ["hybrid_sliding", "hybrid"],
            "mlp_layer_types": ["dense", "sparse"],
            "intermediate_size": 32,
            "dense_intermediate_size": 32,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_shared_experts": 1,
        },
        "vision_config": {"n_layers": 1},
        "audio_config": {"n_mel_bins": 80},
    }


def _mimo(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "mimo_v2",
        **SPREAD,
        "hidden_size": 64,
        "head_dim": 32,
        "v_head_dim": 32,
        "swa_head_dim": 32,
        "swa_v_head_dim": 32,
        "swa_num_attention_heads": 2,
        "swa_num_key_value_heads": 1,
        "intermediate_size": 64,
        "moe_intermediate_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "hybrid_layer_pattern": [0, 1],
        "moe_layer_freq": [0, 1],
        "eos_token_id": ids["<|im_end|>"],
        "audio_token_id": ids["<|audio_pad|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_config": {
            "depth": 1,
            "hidden_size": 64,
            "intermediate_size": 64,
            "out_hidden_size": 64,
            "num_heads": 2,
            "num_key_value_heads": 1,
            "num_query_groups": 2,
            "fullatt_block_indexes": [0],
        },
        "audio_config": {
            "out_hidden_size": 64,
            "input_local_attn_heads": 2,
            "input_local_dim": 64,
            "input_local_head_dim": 32,
            "input_local_intermediate_size": 64,
            "input_local_layers": 1,
        },
    }


MIMO_CODEC = {
    "model_type": "mimo_audio_tokenizer",
    "d_model": 64,
    "encoder_layers": 4,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_layers": 1,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 64,
    "vocoder_dim": 64,
    "vocoder_intermediate_dim": 64,
    "vocoder_num_layers": 1,
    "vocoder_attention_heads": 2,
    "weights_format": "mlx",
}
PATCHES = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
MEL = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "hop_length": 160,
    "n_fft": 400,
    "return_attention_mask": True,
}
GEMMA4_MARKS = {
    "image_token": "<|image|>",
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "audio_token": "<|audio|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
    "video_token": "<|video|>",
}
QWEN_MARKS = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
FAMILIES = {
    "gemma4": FamilyShape(
        named=GEMMA4_MARKS, audio="<|audio|>", start="<|turn>", end="<turn|>", config=_gemma4
    ),
    "gemma4_unified": FamilyShape(
        named=GEMMA4_MARKS,
        audio="<|audio|>",
        start="<|turn>",
        end="<turn|>",
        config=_gemma4_unified,
    ),
    "qwen3_omni_moe": FamilyShape(
        named={
            **QWEN_MARKS,
            "audio_token": "<|audio_pad|>",
            "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
        },
        audio="<|audio_start|><|audio_pad|><|audio_end|>",
        config=_qwen3_omni,
        files={
            "preprocessor_config.json": {**PATCHES, **MEL, "feature_size": 128, "chunk_length": 300}
        },
    ),
    "minicpmo": FamilyShape(
        named={},
        marks=["<image>", "</image>", "<|audio_start|>", "<|audio_end|>", "<|listen|>"],
        audio="",
        config=_minicpmo,
        files={"preprocessor_config.json": {**MEL, "feature_size": 80, "chunk_length": 30}},
    ),
    "nemotron_h_nano_omni": FamilyShape(
        named={},
        marks=["<image>", "<video>", "<so_embedding>", "<so_start>", "<so_end>"],
        audio="<so_embedding>",
        config=_nemotron,
        spread=0.5,
    ),
    "inkling": FamilyShape(
        named={},
        marks=["<|unused_200053|>", "<|unused_200054|>", "<|content_audio_input|>"],
        audio="<|content_audio_input|><|unused_200053|>",
        config=_inkling,
    ),
    "mimo_v2": FamilyShape(
        named=QWEN_MARKS,
        marks=["<|audio_pad|>"],
        audio="<|audio_pad|>",
        config=_mimo,
        files={"preprocessor_config.json": PATCHES},
    ),
}


def write_family(folder: Path, family: str) -> Path:
    """Made by mlx-vlm's own classes."""
    shape = FAMILIES[family]
    marks = [*SPECIALS, shape.start, shape.end, *shape.named.values(), *shape.marks]
    ids = save_tokenizer(folder, marks, unknown="<unk>", size=IDS)
    files = {
        "config.json": shape.config(ids),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name[1:-1]}_token": name for name in SPECIALS},
            "extra_special_tokens": shape.named,
            "chat_template": TURNS.format(start=shape.start, audio=shape.audio, end=shape.end),
        },
        **shape.files,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    network = _network(files["config.json"])
    save_random_weights(network, folder / "model.safetensors", spread=shape.spread)
    if family == "mimo_v2":
        _write_codec(folder / "audio_tokenizer")
    return folder


def _network(config: dict[str, Any]) -> Any:
    from mlx_vlm import utils

    config = json.loads(json.dumps(config))  # what follows changes it
    parts, _ = utils.get_model_and_args(config)
    config.setdefault("text_config", config.pop("llm_config", {}))
    groups = ["text", "vision", "audio"]
    for group in groups:
        config.setdefault(f"{group}_config", {})
    settings = parts.ModelConfig.from_dict(config)
    return parts.Model(utils.update_module_configs(settings, parts, config, groups))


def _write_codec(folder: Path) -> None:
    from mlx_audio.codec.models.mimo_audio_tokenizer import MiMoAudioTokenizer
    from mlx_audio.codec.models.mimo_audio_tokenizer.config import ModelConfig

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MIMO_CODEC))
    codec = MiMoAudioTokenizer(ModelConfig.from_dict(MIMO_CODEC))
    save_random_weights(codec, folder / "model.safetensors")
