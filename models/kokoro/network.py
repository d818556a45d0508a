"""The whole network: phoneme ids and a voice's style in, a waveform at 24 kHz out.

It owns the order of the parts and the timing (how long each phoneme lasts); it knows nothing of
text, files or voices by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.backend import mx
from models.backend.ops import Floats, sigmoid
from models.kokoro.albert import Albert
from models.kokoro.config import KokoroConfig
from models.kokoro.layers import AdaptiveLayerNorm, Linear, ResidualBlock, leaky
from models.kokoro.vocoder import Decoder
from models.kokoro.weights import Weights

PAD = 0
"""The id before and after the phonemes."""
LONGEST = 100
"""Frames (25 ms each) of one phoneme."""
NORM_EPS = 1e-5


def frames_of(durations: Floats, speed: float) -> NDArray[np.int64]:
    """Whole frames of each phoneme, at least one: rounded half away from zero."""
    scaled = durations.astype(np.float64) / (speed if math.isfinite(speed) and speed > 0 else 1.0)
    rounded = np.floor(np.where(np.isfinite(scaled), scaled, 1.0) + 0.5)
    return np.clip(rounded, 1, LONGEST).astype(np.int64)


class TextEncoder:
    """What is said, without its melody."""

    def __init__(self, weights: Weights, config: KokoroConfig) -> None:
        name, width = "text_encoder", config.hidden
        self._embedding = weights.take(f"{name}.embedding.weight", config.tokens, width)
        self._convolutions = [
            weights.convolution(
                f"{name}.cnn.{n}.0", width, width, config.kernel, padding=config.kernel // 2
            )
            for n in range(config.layers)
        ]
        self._norms = [
            (
                weights.take(f"{name}.cnn.{n}.1.gamma", width),
                weights.take(f"{name}.cnn.{n}.1.beta", width),
            )
            for n in range(config.layers)
        ]
        self._lstm = weights.lstm(f"{name}.lstm", width, width // 2)

    def __call__(self, ids: mx.array) -> mx.array:
        x = self._embedding[ids]
        for convolution, (gain, offset) in zip(self._convolutions, self._norms, strict=True):
            x = leaky(mx.fast.layer_norm(convolution(x), gain, offset, NORM_EPS), 0.2)
        return self._lstm(x)


class DurationEncoder:
    """Alternating LSTMs and adapted norms; the style is joined to the input of each."""

    def __init__(self, weights: Weights, config: KokoroConfig) -> None:
        name, width = "predictor.text_encoder.lstms", config.hidden
        self._layers = [
            (
                weights.lstm(f"{name}.{2 * n}", width + config.style, width // 2),
                AdaptiveLayerNorm(weights, f"{name}.{2 * n + 1}", config.style, width),
            )
            for n in range(config.layers)
        ]

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        beside = mx.broadcast_to(style, (x.shape[0], style.shape[1]))
        x = mx.concatenate([x, beside], axis=1)
        for lstm, norm in self._layers:
            x = mx.concatenate([norm(lstm(x), style), beside], axis=1)
        return x


class Curve:
    """Pitch (Hz) or energy, two values a frame."""

    def __init__(self, weights: Weights, name: str, config: KokoroConfig) -> None:
        width, half, style = config.hidden, config.hidden // 2, config.style
        self._blocks = [
            ResidualBlock(weights, f"predictor.{name}.0", width, width, style=style),
            ResidualBlock(weights, f"predictor.{name}.1", width, half, style=style, double=True),
            ResidualBlock(weights, f"predictor.{name}.2", half, half, style=style),
        ]
        self._project = weights.convolution(f"predictor.{name}_proj", half, 1, 1, normed=False)

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        for block in self._blocks:
            x = block(x, style)
        return self._project(x)


class Prosody:
    """Durations, pitch and energy."""

    def __init__(self, weights: Weights, config: KokoroConfig) -> None:
        width, joined = config.hidden, config.hidden + config.style
        self._encoder = DurationEncoder(weights, config)
        self._lstm = weights.lstm("predictor.lstm", joined, width // 2)
        self._duration = Linear(
            weights, "predictor.duration_proj.linear_layer", width, config.max_duration
        )
        self._shared = weights.lstm("predictor.shared", joined, width // 2)
        self._pitch = Curve(weights, "F0", config)
        self._energy = Curve(weights, "N", config)

    def durations(self, x: mx.array, style: mx.array) -> tuple[mx.array, mx.array]:
        """Encoded phonemes, and the frames that each would last at speed 1."""
        encoded = self._encoder(x, style)
        logits = self._duration(self._lstm(encoded))
        return encoded, mx.sum(sigmoid(logits), axis=-1)

    def curves(self, stretched: mx.array, style: mx.array) -> tuple[mx.array, mx.array]:
        """Pitch and energy, [2 * frames, 1] each."""
        x = self._shared(stretched)
        return self._pitch(x, style), self._energy(x, style)


class Kokoro:
    def __init__(self, weights: Weights, config: KokoroConfig) -> None:
        self._style = config.style
        self._albert = Albert(weights, config.albert, tokens=config.tokens)
        self._narrow = Linear(weights, "bert_encoder", config.albert.hidden, config.hidden)
        self._text = TextEncoder(weights, config)
        self._prosody = Prosody(weights, config)
        self._decoder = Decoder(weights, config)

    def __call__(self, ids: Sequence[int], style: mx.array, speed: float) -> Floats:
        """``style`` is [1, 2 * style]: the decoder's half, then the prosody's."""
        tokens = mx.array([PAD, *ids, PAD])
        timbre, manner = mx.split(style, [self._style], axis=1)
        encoded, durations = self._prosody.durations(self._narrow(self._albert(tokens)), manner)
        frames = frames_of(np.array(durations), speed)
        place = mx.array(np.repeat(np.arange(len(frames)), frames))
        pitch, energy = self._prosody.curves(encoded[place], manner)
        waveform = self._decoder(self._text(tokens)[place], pitch, energy, timbre)
        return np.array(waveform)
