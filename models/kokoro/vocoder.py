"""From timed phonemes, pitch and energy to a waveform: decoder, harmonic source, iSTFTNet.

The source starts at phase zero and carries no noise, so the same input gives the same samples.
"""

from __future__ import annotations

import math

import numpy as np

from models.backend import mx
from models.backend.filtering import SnakeConvolution
from models.backend.ops import Floats, exp, sin, tanh
from models.kokoro.config import KokoroConfig, VocoderConfig
from models.kokoro.layers import AdaptiveInstanceNorm, ResidualBlock, leaky
from models.kokoro.weights import Weights

SAMPLE_RATE = 24_000
"""Hz."""
ASR_CHANNELS = 64
DECODER_CHANNELS = 1024
VOICED_ABOVE = 10.0
"""Hz."""
HARMONICS = 9
SINE_AMPLITUDE = 0.1
SILENT_WINDOW = 1e-8
"""Window power below which a sample is left undivided."""


class Decoder:
    def __init__(self, weights: Weights, config: KokoroConfig) -> None:
        style, width, inner = config.style, config.hidden, DECODER_CHANNELS
        joined = inner + ASR_CHANNELS + 2
        self._pitch = weights.convolution("decoder.F0_conv", 1, 1, 3, stride=2, padding=1)
        self._energy = weights.convolution("decoder.N_conv", 1, 1, 3, stride=2, padding=1)
        self._asr = weights.convolution("decoder.asr_res.0", width, ASR_CHANNELS, 1)
        self._encode = ResidualBlock(weights, "decoder.encode", width + 2, inner, style=style)
        self._decode = [
            ResidualBlock(weights, f"decoder.decode.{n}", joined, outputs, style=style, double=last)
            for n, (outputs, last) in enumerate(
                [(inner, False)] * 3 + [(config.vocoder.channels, True)]
            )
        ]
        self._generator = Generator(weights, config.vocoder, style=style)

    def __call__(
        self, asr: mx.array, pitch: mx.array, energy: mx.array, style: mx.array
    ) -> mx.array:
        curves = [self._pitch(pitch), self._energy(energy)]
        x = self._encode(mx.concatenate([asr, *curves], axis=1), style)
        beside = [self._asr(asr), *curves]
        for block in self._decode:
            x = block(mx.concatenate([x, *beside], axis=1), style)
        return self._generator(x, pitch, style)


class SnakeBlock:
    """Three pairs of adapted convolutions, each after a snake: x + sin(a x)^2 / a."""

    def __init__(
        self,
        weights: Weights,
        name: str,
        channels: int,
        kernel: int,
        *,
        dilations: tuple[int, ...],
        style: int,
    ) -> None:
        self._steps = [
            step
            for n, dilation in enumerate(dilations)
            for step in (
                AdaptedConvolution(
                    weights, name, f"1.{n}", channels, kernel=kernel, dilation=dilation, style=style
                ),
                AdaptedConvolution(
                    weights, name, f"2.{n}", channels, kernel=kernel, dilation=1, style=style
                ),
            )
        ]

    def __call__(self, x: mx.array, style: mx.array) -> mx.array:
        for first, second in zip(self._steps[::2], self._steps[1::2], strict=True):
            x = second(first(x, style), style, added=x)
        return x


class AdaptedConvolution:
    def __init__(
        self,
        weights: Weights,
        name: str,
        place: str,
        channels: int,
        *,
        kernel: int,
        dilation: int,
        style: int,
    ) -> None:
        self._norm = AdaptiveInstanceNorm(weights, f"{name}.adain{place}", style, channels)
        self._convolution = SnakeConvolution(
            weights.unfolded(f"{name}.convs{place}", channels, channels, kernel),
            weights.take(f"{name}.convs{place}.bias", channels),
            weights.take(f"{name}.alpha{place}", 1, channels, 1).reshape(channels),
            dilation=dilation,
        )

    def __call__(self, x: mx.array, style: mx.array, *, added: mx.array | None = None) -> mx.array:
        scale, shift = self._norm.scale_shift(x, style)
        return self._convolution(x, scale, shift, added=added)


class Generator:
    def __init__(self, weights: Weights, config: VocoderConfig, *, style: int) -> None:
        self._source = Source(weights, config)
        self._stft = Stft(config.n_fft, config.hop)
        self._stages = [
            Stage(weights, config, stage, style=style) for stage in range(len(config.rates))
        ]
        last = config.channels >> len(config.rates)
        self._post = weights.convolution(
            "decoder.generator.conv_post", last, config.n_fft + 2, 7, padding=3
        )

    def __call__(self, x: mx.array, pitch: mx.array, style: mx.array) -> mx.array:
        source = self._stft.analyse(self._source(pitch))
        for stage in self._stages:
            x = stage(x, source, style)
        magnitude, phase = mx.split(self._post(leaky(x, 0.01)), 2, axis=1)
        return self._stft.synthesise(exp(mx.contiguous(magnitude)), sin(mx.contiguous(phase)))


class Stage:
    """One upsampling, the source's part added, and the mean of several snake blocks."""

    def __init__(self, weights: Weights, config: VocoderConfig, stage: int, *, style: int) -> None:
        name = "decoder.generator"
        rate, kernel = config.rates[stage], config.kernels[stage]
        channels = config.channels >> (stage + 1)
        self._last = stage + 1 == len(config.rates)
        self._up = weights.transposed(
            f"{name}.ups.{stage}", 2 * channels, channels, kernel, stride=rate
        )
        step = math.prod(config.rates[stage + 1 :])
        self._from_source = weights.convolution(
            f"{name}.noise_convs.{stage}",
            config.n_fft + 2,
            channels,
            1 if self._last else 2 * step,
            stride=step,
            padding=0 if self._last else (step + 1) // 2,
            normed=False,
        )
        self._source_block = SnakeBlock(
            weights,
            f"{name}.noise_res.{stage}",
            channels,
            11 if self._last else 7,
            dilations=(1, 3, 5),
            style=style,
        )
        first = stage * len(config.block_kernels)
        self._blocks = [
            SnakeBlock(
                weights,
                f"{name}.resblocks.{first + n}",
                channels,
                size,
                dilations=dilations,
                style=style,
            )
            for n, (size, dilations) in enumerate(
                zip(config.block_kernels, config.block_dilations, strict=True)
            )
        ]

    def __call__(self, x: mx.array, source: mx.array, style: mx.array) -> mx.array:
        added = self._source_block(self._from_source(source), style)
        x = self._up(leaky(x, 0.1))
        if self._last:
            x = mx.concatenate([x[1:2], x])  # reflected: one frame more, as the source has
        x = x + added
        outputs = [block(x, style) for block in self._blocks]
        return sum(outputs[1:], outputs[0]) / len(outputs)


class Source:
    """Nine harmonics of the pitch, summed with learned weights; silence where it is unvoiced."""

    def __init__(self, weights: Weights, config: VocoderConfig) -> None:
        name = "decoder.generator.m_source.l_linear"
        self._weight, self._bias = weights.linear(name, HARMONICS, 1)
        self._step = config.samples_per_pitch_frame

    def __call__(self, pitch: mx.array) -> mx.array:
        hertz = np.array(pitch).reshape(-1)
        angle = mx.array(self._phase(hertz))
        voiced = mx.repeat(mx.array(hertz > VOICED_ABOVE).astype(mx.float32), self._step)
        return tanh(self._harmonics(angle) * (SINE_AMPLITUDE * voiced) + self._bias)

    def _phase(self, hertz: Floats) -> Floats:
        """Radians of the fundamental at every sample, between frame centres linear."""
        cycles = np.cumsum(hertz.astype(np.float64) / SAMPLE_RATE) * self._step
        centres = (np.arange(len(hertz)) + 0.5) * self._step - 0.5
        between = np.interp(np.arange(len(hertz) * self._step), centres, cycles)
        return ((between % 1.0) * (2 * np.pi)).astype(np.float32)

    def _harmonics(self, angle: mx.array) -> mx.array:
        """Sum of w[n] sin((n+1) angle): sin((n+1)a) = 2 cos(a) sin(na) - sin((n-1)a)."""
        first = sin(mx.array(angle))
        twice = 2 * sin(angle + math.pi / 2)
        before, current, total = mx.zeros_like(first), first, self._weight[0] * first
        for harmonic in range(1, HARMONICS):
            before, current = current, twice * current - before
            total = total + self._weight[harmonic] * current
        return total


class Stft:
    """Centred short-time Fourier transform with a periodic Hann window, as products of matrices."""

    def __init__(self, n_fft: int, hop: int) -> None:
        self._n_fft, self._hop = n_fft, hop
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
        angle = 2 * np.pi * np.outer(np.arange(n_fft), np.arange(n_fft // 2 + 1)) / n_fft
        forward = np.concatenate([np.cos(angle), -np.sin(angle)], axis=1) * window[:, None]
        twice = np.where(np.arange(n_fft // 2 + 1) % (n_fft // 2) == 0, 1.0, 2.0)
        inverse = np.concatenate([np.cos(angle) * twice, -np.sin(angle) * twice], axis=1).T
        self._forward = mx.array(forward.astype(np.float32))
        self._inverse = mx.array((inverse * window / n_fft).astype(np.float32))
        self._power = window**2

    def analyse(self, samples: mx.array) -> mx.array:
        """[frames, bins of magnitude, then of phase]."""
        half = self._n_fft // 2
        padded = mx.concatenate([samples[half:0:-1], samples, samples[-2 : -half - 2 : -1]])
        frames = mx.as_strided(
            padded, (samples.shape[0] // self._hop + 1, self._n_fft), (self._hop, 1)
        )
        real, imaginary = mx.split(frames @ self._forward, 2, axis=1)
        magnitude = mx.sqrt(real * real + imaginary * imaginary)
        return mx.concatenate([magnitude, mx.arctan2(imaginary, real)], axis=1)

    def synthesise(self, magnitude: mx.array, phase: mx.array) -> mx.array:
        spectrum = mx.concatenate(
            [magnitude * sin(phase + math.pi / 2), magnitude * sin(mx.array(phase))], axis=1
        )
        samples = self._overlap(spectrum @ self._inverse)
        half = self._n_fft // 2
        return (samples / self._window_power(magnitude.shape[0]))[half : samples.shape[0] - half]

    def _overlap(self, frames: mx.array) -> mx.array:
        """Sum of the frames, each ``hop`` later than the one before."""
        count, pieces = frames.shape[0], self._n_fft // self._hop
        parts = frames.reshape(count, pieces, self._hop)
        shifted = [mx.pad(parts[:, n], [(n, pieces - 1 - n), (0, 0)]) for n in range(pieces)]
        return sum(shifted[1:], shifted[0]).reshape(-1)

    def _window_power(self, count: int) -> mx.array:
        frames = mx.broadcast_to(mx.array(self._power.astype(np.float32)), (count, self._n_fft))
        power = self._overlap(frames)
        return mx.where(power > SILENT_WINDOW, power, 1.0)
