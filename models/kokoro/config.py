"""The sizes of a Kokoro network, read from its config.json.

Owns the names of the published config and the refusal of one that is not Kokoro's; it knows nothing
of tensors or files of weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

from models.base import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class AlbertConfig:
    hidden: int
    heads: int
    intermediate: int
    layers: int
    positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderConfig:
    rates: tuple[int, ...]
    kernels: tuple[int, ...]
    block_kernels: tuple[int, ...]
    block_dilations: tuple[tuple[int, ...], ...]
    channels: int
    """Before the first upsampling; halved by each."""
    n_fft: int
    hop: int

    @property
    def samples_per_pitch_frame(self) -> int:
        return prod(self.rates) * self.hop


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroConfig:
    hidden: int
    style: int
    tokens: int
    layers: int
    max_duration: int
    kernel: int
    """Of the text encoder's convolutions."""
    albert: AlbertConfig
    vocoder: VocoderConfig
    vocab: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: {error}") from error
        try:
            return cls._parse(data)
        except KeyError as error:
            raise CheckpointError(f"{path}: no {error.args[0]!r} in it") from error
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: not the config of a Kokoro network: {error}") from error

    @classmethod
    def _parse(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            hidden=int(data["hidden_dim"]),
            style=int(data["style_dim"]),
            tokens=int(data["n_token"]),
            layers=int(data["n_layer"]),
            max_duration=int(data["max_dur"]),
            kernel=int(data["text_encoder_kernel_size"]),
            albert=_albert(data["plbert"]),
            vocoder=_vocoder(data["istftnet"]),
            vocab={str(symbol): int(number) for symbol, number in data["vocab"].items()},
        )


def _albert(data: Mapping[str, Any]) -> AlbertConfig:
    return AlbertConfig(
        hidden=int(data["hidden_size"]),
        heads=int(data["num_attention_heads"]),
        intermediate=int(data["intermediate_size"]),
        layers=int(data["num_hidden_layers"]),
        positions=int(data["max_position_embeddings"]),
    )


def _vocoder(data: Mapping[str, Any]) -> VocoderConfig:
    return VocoderConfig(
        rates=tuple(map(int, data["upsample_rates"])),
        kernels=tuple(map(int, data["upsample_kernel_sizes"])),
        block_kernels=tuple(map(int, data["resblock_kernel_sizes"])),
        block_dilations=tuple(tuple(map(int, d)) for d in data["resblock_dilation_sizes"]),
        channels=int(data["upsample_initial_channel"]),
        n_fft=int(data["gen_istft_n_fft"]),
        hop=int(data["gen_istft_hop_size"]),
    )
