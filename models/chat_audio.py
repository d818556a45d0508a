"""Chat models that hear, as speech providers: mlx-vlm's networks behind this project's boundary.

Gemma 3n and Phi-4 Multimodal. Every window goes through the bounded stage of models/preprocess,
whose thread prepares the next while the network answers the last; mlx-vlm, an optional extra,
brings networks and sampling. A provider is used on the thread that loaded it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

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
from models.chat_prompt import ChatPrompt, read_json
from models.preprocess.batch import NormalizedClip, WaveformBatch
from models.preprocess.cancellation import Cancelled
from models.preprocess.errors import WaveformError
from models.preprocess.features import gemma3n, phi4mm
from models.preprocess.frames import GEMMA3N_SOFT_TOKENS, phi4mm_tokens
from models.preprocess.metrics import AudioMetrics, Rejection
from models.preprocess.placeholders import Medium, expand, splice
from models.preprocess.policy import SAMPLE_RATE, AudioPolicy, Family
from models.preprocess.policy_config import load_policy
from models.preprocess.source import EncodedClip, SourceKind
from models.preprocess.stage import (
    TOKEN_BYTES,
    HostStage,
    Prefill,
    Prepared,
    Rejected,
    Request,
    StageLimits,
)
from models.preprocess.wav import float_wav
from models.transcript import Usage, WindowTranscript

Config = dict[str, Any]

WINDOW_SECONDS = 30
WINDOW_BYTES = 8 << 20  # 30 s as samples twice over, or as features and ids
AHEAD = 2  # windows prepared before their turn: what the stage's results hold
MAX_POSITIONS = 32_768  # where config.json names no other
MAX_TOKENS = 1_024  # of the answer to one window, where the caller names none
MODEL_TYPES = {
    "gemma3n": Family.GEMMA3N,
    "phi4mm": Family.PHI4MM,
    "phi4_multimodal": Family.PHI4MM,
}
_FAULTS = (Rejection.WAVEFORM, Rejection.FEATURE, Rejection.CONTEXT_LIMIT)  # of the audio itself
_GROUPS = ("text", "vision", "audio")
_SEEING = {"vision_tower", "mm_projector"}  # parts that never run here
_SEEN_WEIGHTS = re.compile(r"vision_tower\.|mm_projector\.|\.image_embed\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What stands for one clip: ids in the prompt, and the arrays that the network puts there."""

    ids: list[int]
    audio: dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ear:
    """How one family takes a clip."""

    min_samples: int
    """Of a window; a shorter one makes no frame, and nothing is heard in it."""
    placeholder: Callable[[Config], int]
    """The one id that stands for the clip until its length is known."""
    around: str
    """Text on both sides of the clip."""
    hear: Callable[[Config, NormalizedClip, Cancelled], Heard]


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
        self.metrics = AudioMetrics()
        self._network, self._prompt, self._config = network, prompt, config
        self._ear = EARS[policy.family]
        limits = StageLimits(max_prefill=_positions(config))
        self._stage = HostStage(_for_windows(policy), self._prefill, limits, self.metrics)

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        self._check(windows, options)
        heard = [self._audible(window) for window in windows]
        nothing = WindowTranscript(text="", language=options.language or "")
        with closing(self._prepared(list(compress(windows, heard)), options)) as prepared:
            return [self._answer(next(prepared), options) if able else nothing for able in heard]

    def stream(self, window: Samples, options: TranscribeOptions) -> Iterator[str]:
        """The same text, piece by piece as it is generated."""
        self._check([window], options)
        if self._audible(window):
            (prefill,) = self._prepared([window], options)
            yield from self._prompt.visible(self._tokens(prefill, options))

    def close(self) -> None:
        self._stage.close()

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

    def _check(self, windows: Sequence[Samples], options: TranscribeOptions) -> None:
        if options.task != "transcribe":
            raise NotSupported(f"{self.info.name} does not translate")
        most = round(self.window_seconds * SAMPLE_RATE)
        for window in windows:
            if window.ndim != 1 or len(window) > most:
                shape = window.shape
                raise InputRejected(f"a window has shape {shape}: at most {most} mono samples")

    def _audible(self, window: Samples) -> bool:
        return len(window) >= self._ear.min_samples

    def _prepared(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> Generator[Prefill, None, None]:
        """In order; the next window is prepared while the caller works on the last."""
        pieces = self._prompt.pieces(options.prompt, options.language)
        placeholder = self._ear.placeholder(self._config)
        ids = splice(
            pieces, self._prompt.encode, {Medium.AUDIO: placeholder}, around=self._ear.around
        )
        waiting = 0
        try:
            for window in windows:
                self._stage.try_submit(Request(clips=(_clip(window),), token_ids=tuple(ids)))
                waiting += 1
                if waiting > AHEAD:
                    waiting -= 1
                    yield self._take()
            while waiting:
                waiting -= 1
                yield self._take()
        finally:
            for _ in range(waiting):  # of a call that failed: not the next one's
                self._stage.take().close()

    def _take(self) -> Prefill:
        with self._stage.take() as outcome:
            if isinstance(outcome, Prepared):
                return outcome.prefill
            error = outcome.error
            if isinstance(error, Rejected) and error.reason in _FAULTS:
                raise InputRejected(str(error)) from error
            raise error

    def _prefill(self, request: Request, batch: WaveformBatch) -> Prefill:
        """On the stage's thread, where there is no MLX: plain arrays only."""
        (clip,) = batch.clips
        heard = self._ear.hear(self._config, clip, request.cancelled)
        ids = expand(request.token_ids, self._ear.placeholder(self._config), heard.ids)
        size = sum(array.nbytes for array in heard.audio.values()) + TOKEN_BYTES * len(ids)
        prompt = Heard(ids=ids, audio=heard.audio)
        return Prefill(positions=len(ids), host_bytes=size, payload=prompt)

    def _answer(self, prefill: Prefill, options: TranscribeOptions) -> WindowTranscript:
        tokens = list(self._tokens(prefill, options))
        return WindowTranscript(
            text="".join(self._prompt.visible(iter(tokens))),
            language=options.language or "",
            usage=Usage(input_tokens=prefill.positions, output_tokens=len(tokens)),
        )

    def _tokens(self, prefill: Prefill, options: TranscribeOptions) -> Iterator[int]:
        from mlx_vlm.generate import generate_step

        prompt: Heard = prefill.payload
        steps = generate_step(
            mx.array([prompt.ids]),
            self._network,
            None,
            None,
            max_tokens=MAX_TOKENS if options.max_tokens is None else options.max_tokens,
            temperature=options.temperature,
            **{name: mx.array(array) for name, array in prompt.audio.items()},
        )
        for token, _ in steps:
            if token in self._prompt.stop:
                return
            yield int(token)


def _gemma3n(config: Config, clip: NormalizedClip, cancelled: Cancelled) -> Heard:
    heard = gemma3n.features([clip.samples], cancelled)
    soft = [_gemma3n_placeholder(config)]
    soft *= config.get("audio_soft_tokens_per_image", GEMMA3N_SOFT_TOKENS)
    return Heard(
        ids=[config.get("boa_token_id", 256_000), *soft, config.get("eoa_token_id", 262_272)],
        audio={"input_features": heard.values, "input_features_mask": heard.valid},
    )


def _gemma3n_placeholder(config: Config) -> int:
    return int(config.get("audio_token_id", 262_273))


def _phi4mm(config: Config, clip: NormalizedClip, cancelled: Cancelled) -> Heard:
    given = phi4mm.Clip(samples=clip.samples, sample_rate=clip.sample_rate)
    (heard,) = phi4mm.features([given], cancelled)
    count = phi4mm_tokens(len(heard))
    return Heard(
        ids=[_phi4mm_placeholder(config)] * count,
        audio={"input_audio_embeds": heard[None], "audio_embed_sizes": np.array([count])},
    )


def _phi4mm_placeholder(config: Config) -> int:
    return int(config.get("audio_token_index", 200_011))


EARS = {
    Family.GEMMA3N: Ear(
        min_samples=gemma3n.UNFOLD,
        placeholder=_gemma3n_placeholder,
        around="\n\n",
        hear=_gemma3n,
    ),
    Family.PHI4MM: Ear(
        min_samples=phi4mm.MIN_SAMPLES[SAMPLE_RATE],
        placeholder=_phi4mm_placeholder,
        around="",
        hear=_phi4mm,
    ),
}


def _for_windows(policy: AudioPolicy) -> AudioPolicy:
    """Reservations as small as windows are, so that several fit into the stage at once."""
    working = min(policy.max_waveform_working_bytes_per_request, WINDOW_BYTES)
    prepared = min(policy.max_prepared_result_bytes_per_request, WINDOW_BYTES)
    return replace(
        policy,
        max_waveform_working_bytes_per_request=working,
        max_prepared_result_bytes_per_request=prepared,
    )


def _clip(window: Samples) -> EncodedClip:
    data = float_wav(window, SAMPLE_RATE)
    return EncodedClip(data=data, kind=SourceKind.SERVER_INLINE, placeholder_ordinal=1)


def _positions(config: Config) -> int:
    """The longest prompt and answer, in tokens."""
    for holder in (config.get("text_config") or {}, config):
        if "max_position_embeddings" in holder:
            return int(holder["max_position_embeddings"])
    return MAX_POSITIONS


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
