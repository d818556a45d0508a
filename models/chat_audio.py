"""Chat models that hear, as speech providers: mlx-vlm's networks behind this project's boundary.

Gemma 3n and Phi-4 Multimodal. The waveform policy, features and placeholders are those of
models/preprocess; mlx-vlm, an optional extra, brings networks and sampling. A provider is used on
the thread that loaded it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from models.backend import mx
from models.base import (
    Capability,
    CheckpointError,
    InputRejected,
    ModelInfo,
    NotSupported,
    Samples,
    TranscribeOptions,
    Utterance,
)
from models.chat_prompt import ChatPrompt, read_json, splice
from models.preprocess.errors import WaveformError
from models.preprocess.features import gemma3n, phi4mm
from models.preprocess.frames import GEMMA3N_SOFT_TOKENS, phi4mm_tokens
from models.preprocess.placeholders import Piece
from models.preprocess.policy import SAMPLE_RATE, AudioPolicy, Family
from models.preprocess.policy_config import load_policy
from models.transcript import Usage, WindowTranscript

Config = dict[str, Any]

WINDOW_SECONDS = 30
MAX_TOKENS = 1_024  # of the answer to one window, where the caller names none
MODEL_TYPES = {
    "gemma3n": Family.GEMMA3N,
    "phi4mm": Family.PHI4MM,
    "phi4_multimodal": Family.PHI4MM,
}
_GROUPS = ("text", "vision", "audio")
_SEEING = {"vision_tower", "mm_projector"}  # parts that never run here
_SEEN_WEIGHTS = re.compile(r"vision_tower\.|mm_projector\.|\.image_embed\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a network is given: ids, and the audio for the ids that stand for it."""

    ids: list[int]
    audio: dict[str, mx.array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """How one family takes a clip."""

    min_samples: int
    """Of a window; a shorter one makes no frame, and nothing is heard in it."""
    prompt: Callable[[Config, ChatPrompt, list[Piece], Samples], Prompt]
    """The checkpoint's config.json, its tokenizer, the conversation and the window."""


def load(path: Path, name: str) -> ChatAudioProvider:
    """Load the checkpoint in a directory; CheckpointError says what is wrong with it."""
    config = read_json(path / "config.json")
    family = MODEL_TYPES.get(str(config.get("model_type")))
    if family is None:
        raise CheckpointError(f"{path / 'config.json'} describes no chat model that hears")
    try:
        policy = load_policy(family, path)
    except WaveformError as error:
        raise CheckpointError(str(error)) from error
    info = ModelInfo(
        name=name,
        family=family,
        capabilities=frozenset({Capability.STT}),
        revision=_revision(path),
        details={"policy": policy.source},
    )
    chat = ChatPrompt(path)
    return ChatAudioProvider(info, _network(path), chat, config=config, policy=policy)


class ChatAudioProvider:
    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        info: ModelInfo,
        network: Any,
        prompt: ChatPrompt,
        *,
        config: Config,
        policy: AudioPolicy,
    ) -> None:
        self.info = info
        self.window_seconds = float(min(WINDOW_SECONDS, policy.max_duration_seconds))
        self._network, self._prompt, self._config = network, prompt, config
        self._voice = VOICES[policy.family]

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        return [self._transcribe(window, options) for window in windows]

    def stream(self, window: Samples, options: TranscribeOptions) -> Iterator[str]:
        """The same text, piece by piece as it is generated."""
        prompt = self._asked(window, options)
        if prompt is not None:
            yield from self._prompt.visible(self._tokens(prompt, options))

    def plan_speech(self, text: str) -> list[Utterance]:  # noqa: ARG002 -- the protocol's
        raise NotSupported(f"{self.info.name} does not speak")

    def synthesize(
        self,
        utterances: Sequence[Utterance],  # noqa: ARG002 -- the protocol's
        *,
        voice: str | None,  # noqa: ARG002 -- the protocol's
        speed: float,  # noqa: ARG002 -- the protocol's
    ) -> list[Samples]:
        raise NotSupported(f"{self.info.name} does not speak")

    def _transcribe(self, window: Samples, options: TranscribeOptions) -> WindowTranscript:
        language = options.language or ""
        prompt = self._asked(window, options)
        if prompt is None:
            return WindowTranscript(text="", language=language)
        tokens = list(self._tokens(prompt, options))
        text = "".join(self._prompt.visible(iter(tokens)))
        return WindowTranscript(
            text=text,
            language=language,
            usage=Usage(input_tokens=len(prompt.ids), output_tokens=len(tokens)),
        )

    def _asked(self, window: Samples, options: TranscribeOptions) -> Prompt | None:
        """None where the window is too short to hear anything in."""
        if options.task != "transcribe":
            raise NotSupported(f"{self.info.name} does not translate")
        most = round(self.window_seconds * SAMPLE_RATE)
        if window.ndim != 1 or len(window) > most:
            raise InputRejected(f"a window has shape {window.shape}: at most {most} mono samples")
        if len(window) < self._voice.min_samples:
            return None
        pieces = self._prompt.pieces(options.prompt, options.language)
        return self._voice.prompt(self._config, self._prompt, pieces, window)

    def _tokens(self, prompt: Prompt, options: TranscribeOptions) -> Iterator[int]:
        from mlx_vlm.generate import generate_step

        steps = generate_step(
            mx.array([prompt.ids]),
            self._network,
            None,
            None,
            max_tokens=MAX_TOKENS if options.max_tokens is None else options.max_tokens,
            temperature=options.temperature,
            **prompt.audio,
        )
        for token, _ in steps:
            if token in self._prompt.stop:
                return
            yield int(token)


def _gemma3n(config: Config, chat: ChatPrompt, pieces: list[Piece], window: Samples) -> Prompt:
    heard = gemma3n.features([np.clip(window, -1, 1)])
    soft = [config.get("audio_token_id", 262_273)]
    soft *= config.get("audio_soft_tokens_per_image", GEMMA3N_SOFT_TOKENS)
    clip = [config.get("boa_token_id", 256_000), *soft, config.get("eoa_token_id", 262_272)]
    return Prompt(
        ids=splice(pieces, chat.encode, clip, around="\n\n"),
        audio={
            "input_features": mx.array(heard.values),
            "input_features_mask": mx.array(heard.valid),
        },
    )


def _phi4mm(config: Config, chat: ChatPrompt, pieces: list[Piece], window: Samples) -> Prompt:
    (heard,) = phi4mm.features([phi4mm.Clip(samples=window, sample_rate=SAMPLE_RATE)])
    count = phi4mm_tokens(len(heard))
    clip = [config.get("audio_token_index", 200_011)] * count
    return Prompt(
        ids=splice(pieces, chat.encode, clip, around=""),
        audio={
            "input_audio_embeds": mx.array(heard[None]),
            "audio_embed_sizes": mx.array([count]),
        },
    )


VOICES = {
    Family.GEMMA3N: Voice(min_samples=gemma3n.UNFOLD, prompt=_gemma3n),
    Family.PHI4MM: Voice(min_samples=phi4mm.MIN_SAMPLES[SAMPLE_RATE], prompt=_phi4mm),
}


def _network(path: Path) -> Any:
    """mlx-vlm's network without its eyes, which hold gigabytes and never see anything here."""
    try:
        from mlx_vlm import utils
    except ImportError as error:
        reason = "chat models need the extra: pip install 'voxqueue[chat]'"
        raise CheckpointError(f"{path}: {reason} ({error})") from error
    try:
        config = utils.load_config(path)
        parts, _ = utils.get_model_and_args(config)
        for group in _GROUPS:
            config.setdefault(f"{group}_config", {})
        settings = utils.update_module_configs(
            parts.ModelConfig.from_dict(config), parts, config, _GROUPS
        )
        network = parts.Model(settings)
        for name in _SEEING & network.keys():
            setattr(network, name, None)
        weights = _heard(path)
        for part in (network, network.language_model, getattr(network, "audio_tower", None)):
            weights = utils.sanitize_weights(part, weights)
        utils.load_model_weights(network, config, weights, path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: {error!r}") from error
    return network


def _heard(path: Path) -> dict[str, mx.array]:
    """The weights of all shards, read when they are used; not those of the eyes."""
    weights: dict[str, mx.array] = {}
    for file in sorted(path.glob("*.safetensors")):
        weights |= cast("dict[str, mx.array]", mx.load(str(file)))
    if not weights:
        raise CheckpointError(f"{path} holds no .safetensors file")
    return {name: value for name, value in weights.items() if not _SEEN_WEIGHTS.search(name)}


def _revision(path: Path) -> str:
    """A hash of the small files, and of the weight files' names and sizes."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()):
        if file.suffix in (".json", ".jinja"):
            digest.update(file.name.encode() + file.read_bytes())
        elif file.suffix == ".safetensors":
            digest.update(f"{file.name} {file.stat().st_size}".encode())
    return digest.hexdigest()
