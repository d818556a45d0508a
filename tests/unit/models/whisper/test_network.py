"""The folded network against the plain one: NumPy in float32 from unfolded weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.backend import mx
from models.whisper import layouts, mel, weights

# erf by interpolation in a table of the exact one: within 2e-9, and quick on millions of elements
ERF_AT = np.linspace(-6, 6, 120_001)
ERF = np.array([math.erf(x) for x in ERF_AT])


class Plain:
    """Whisper written out from the paper, with the published weights as they are."""

    def __init__(self, tensors: dict[str, np.ndarray], heads: int) -> None:
        self.tensors = tensors
        self.heads = heads

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        x = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0)

    def attention(
        self, name: str, x: np.ndarray, y: np.ndarray, *, causal: bool = False
    ) -> np.ndarray:
        def split(z: np.ndarray) -> np.ndarray:
            return z.reshape(len(z), self.heads, -1).transpose(1, 0, 2)

        q, k, v = (
            split(self.linear(f"{name}.{p}", z))
            for p, z in (("query", x), ("key", y), ("value", y))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1], dtype=np.float32)
        if causal:
            scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ v
        return self.linear(f"{name}.out", mixed.transpose(1, 0, 2).reshape(x.shape))

    def mlp(self, block: str, x: np.ndarray) -> np.ndarray:
        return self.linear(
            f"{block}.mlp2", gelu(self.linear(f"{block}.mlp1", self.norm(f"{block}.mlp_ln", x)))
        )

    def encode(self, mels: np.ndarray) -> np.ndarray:
        x = mels
        for name, stride in (("conv1", 1), ("conv2", 2)):
            x = gelu(self.convolve(f"encoder.{name}", x, stride))
        stored = self.tensors.get("encoder.positional_embedding")
        x = x + (np.array(weights.sinusoids(*x.shape)) if stored is None else stored)
        for i in range(self.layers("encoder")):
            block = f"encoder.blocks.{i}"
            h = self.norm(f"{block}.attn_ln", x)
            x = x + self.attention(f"{block}.attn", h, h)
            x = x + self.mlp(block, x)
        return self.norm("encoder.ln_post", x)

    def decode(self, tokens: list[int], audio: np.ndarray) -> np.ndarray:
        embedding = self.tensors["decoder.token_embedding.weight"]
        x = embedding[tokens] + self.tensors["decoder.positional_embedding"][: len(tokens)]
        for i in range(self.layers("decoder")):
            block = f"decoder.blocks.{i}"
            h = self.norm(f"{block}.attn_ln", x)
            x = x + self.attention(f"{block}.attn", h, h, causal=True)
            x = x + self.attention(
                f"{block}.cross_attn", self.norm(f"{block}.cross_attn_ln", x), audio
            )
            x = x + self.mlp(block, x)
        return self.norm("decoder.ln", x) @ embedding.T

    def convolve(self, name: str, x: np.ndarray, stride: int) -> np.ndarray:
        padded = np.pad(x, ((1, 1), (0, 0)))
        kernel = self.tensors[f"{name}.weight"]  # output, tap, input
        taps = (padded[tap : tap + len(x)] @ kernel[:, tap].T for tap in range(3))
        return (sum(taps) + self.tensors[f"{name}.bias"])[::stride]

    def layers(self, side: str) -> int:
        return len(
            {n for n in self.tensors if n.startswith(f"{side}.blocks") and n.endswith("mlp1.bias")}
        )


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.interp(x / math.sqrt(2), ERF_AT, ERF).astype(x.dtype)) / 2


def plain(path) -> Plain:
    checkpoint = layouts.read(path)
    tensors = {
        n: np.array(layouts.array(t).astype(mx.float32)) for n, t in checkpoint.tensors.items()
    }
    return Plain(tensors, checkpoint.heads[0])


def run(path, mels: np.ndarray, tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Encoder output, and the logits after each token, read in two steps through the cache."""
    network, _, _ = weights.load(path)
    audio = network.listen(mx.array(mels[None]))
    cache = network.decoder.new_cache(1, len(tokens))
    steps = [
        network.decoder(mx.array([part]), audio, cache)[0] for part in (tokens[:3], tokens[3:])
    ]
    logits = np.concatenate([np.array(network.decoder.logits(step)) for step in steps])
    return np.array(audio[0]), logits


def test_a_random_network_equals_the_plain_one(build, tmp_path):
    path = build.native(tmp_path / "native", build.tensors(build.sizes(text_layers=2)))
    mels = np.random.default_rng(1).normal(0, 1, (3000, 80)).astype(np.float32)
    states, logits = run(path, mels, [5, 300, 12, 51_000])
    expected = plain(path).encode(mels)
    np.testing.assert_allclose(states, expected, atol=1e-4)
    np.testing.assert_allclose(
        logits, plain(path).decode([5, 300, 12, 51_000], expected), atol=1e-3
    )


@pytest.mark.weights
@pytest.mark.parametrize("name", ["whisper-tiny.en", "whisper-base"])
def test_the_real_network_equals_the_plain_one(checkpoint, speech, name):
    path = checkpoint(name)
    mels = mel.log_mel(speech("jfk.wav"), 80)
    tokens = [50_257, 50_362, 843, 523]
    states, logits = run(path, mels, tokens)
    expected = plain(path).encode(mels)
    # float32 itself is 7e-4 from float64 in a few large values of base: hence the relative part
    np.testing.assert_allclose(states, expected, atol=1e-3, rtol=1e-3)
    assert np.sqrt(np.square(states - expected).mean()) < 5e-5
    np.testing.assert_allclose(logits, plain(path).decode(tokens, expected), atol=5e-3)


def test_rows_that_leave_do_not_change_the_others(build, tmp_path):
    network, _, _ = weights.load(build.native(tmp_path / "n", build.tensors(build.sizes())))
    mels = np.random.default_rng(2).normal(0, 1, (3, 3000, 80)).astype(np.float32)
    audio = network.listen(mx.array(mels))
    full, less = network.decoder.new_cache(3, 4), network.decoder.new_cache(3, 4)
    first, second = mx.array([[1, 2], [3, 4], [5, 6]]), mx.array([[7], [8], [9]])
    for cache in (full, less):
        mx.eval(network.decoder(first, audio, cache))
    keep = mx.array([0, 2])
    less.keep(keep)
    left = network.decoder(second[keep], audio[keep], less)
    everyone = network.decoder(second, audio, full)
    np.testing.assert_allclose(np.array(left), np.array(everyone)[[0, 2]], atol=1e-5)
