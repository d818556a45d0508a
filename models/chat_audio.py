"""Chat models that hear, as speech providers: mlx-vlm's networks behind this project's boundary.

Gemma 3n and Phi-4 Multimodal, whose policy is pinned; the other families are in chat_vlm. mlx-vlm,
an optional extra, brings the networks. All audio goes through the bounded stage of
models/preprocess, whose thread prepares the next clip while the network answers the last. A
recording that comes in encoded is one clip, decoded strictly and resampled as its family does it;
the policy bounds it as a whole, so that 31 s are refused by Gemma 3n and not cut into windows.
Windows, of what no policy admits whole, are clips of at most 30 s. A provider is used on the thread
that loaded it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.backend import mx
from models.base import (
    Capability,
    CheckpointError,
    GivenUp,
    InputRejected,
    ModelInfo,
    Samples,
    TranscribeOptions,
)
from models.chat_answer import Answering, Listener, Question, nothing
from models.chat_network import (
    load_network,
    loading,
    max_positions,
    require_extra,
    revision,
    text_setting,
)
from models.chat_prompt import ChatPrompt, read_json
from models.preprocess.batch import NormalizedClip, WaveformBatch, prepare
from models.preprocess.cancellation import Cancelled, PreprocessingCancelled, never
from models.preprocess.errors import WaveformError
from models.preprocess.features import gemma3n, phi4mm
from models.preprocess.features.errors import FeatureCancelled
from models.preprocess.frames import GEMMA3N_SOFT_TOKENS, phi4mm_tokens
from models.preprocess.metrics import AudioMetrics, Rejection
from models.preprocess.placeholders import Medium, SentinelError, expand, splice
from models.preprocess.policy import PINNED, SAMPLE_RATE, AudioPolicy, Family
from models.preprocess.policy_config import load_policy
from models.preprocess.source import EncodedClip, SourceKind
from models.preprocess.stage import (
    TOKEN_BYTES,
    HostStage,
    NotAdmitted,
    Prefill,
    Prepared,
    Rejected,
    Request,
    StageLimits,
)
from models.preprocess.wav import float_wav
from models.transcript import Transcript, WindowTranscript

Config = dict[str, Any]

WINDOW_SECONDS = 30
WINDOW_BYTES = 8 << 20  # 30 s as samples twice over, or as features and ids
AHEAD = 2  # windows prepared before their turn: what the stage's results hold
MODEL_TYPES = {
    "gemma3n": Family.GEMMA3N,
    "phi4mm": Family.PHI4MM,
    "phi4_multimodal": Family.PHI4MM,
}
_FAULTS = (  # of the audio itself; one request at a time fits into any memory that is shared
    Rejection.WAVEFORM,
    Rejection.FEATURE,
    Rejection.CONTEXT_LIMIT,
    Rejection.MEMORY_LIMIT,
)


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
    with loading(path):
        config = read_json(path / "config.json")
        family = MODEL_TYPES[config["model_type"]]
    try:
        policy = load_policy(family, path)
    except WaveformError as error:
        raise CheckpointError(str(error)) from error
    with loading(path):
        require_extra()
        info = ModelInfo(
            name=name,
            family=family,
            capabilities=frozenset({Capability.STT}),
            translates=False,
            streams=True,
            revision=revision(path),
            details={"policy": policy.source},
        )
        chat, network = ChatPrompt(path), load_network(path)
        provider = ChatAudioProvider(info, network, chat, config=config, policy=policy)
        provider.prove()
    return provider


class ChatAudioProvider(Listener):
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
        self._prompt, self._config = prompt, config
        self._ear = EARS[policy.family]
        self._answering = Answering(
            network=network,
            tokenizer=prompt.tokenizer,
            stop=prompt.stop,
            positions=max_positions(config),
        )
        self._pinned = PINNED[policy.family]
        # Of the two stages one is in use at a time, so that each may count for itself.
        limits = StageLimits(max_prefill=self._answering.positions)
        self._recordings = HostStage(policy, self._prefill, limits, self.metrics)
        self._windows = HostStage(_for_windows(policy), self._prefill, limits, self.metrics)

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        self._check(windows, options)
        heard = [self._audible(window) for window in windows]
        clips = map(_clip, compress(windows, heard))
        with closing(self._prepared(self._windows, clips, options)) as prepared:
            return [
                self._answer(next(prepared).prefill, options) if able else nothing(options)
                for able in heard
            ]

    def transcribe_recording(self, data: bytes, options: TranscribeOptions) -> Transcript:
        """One clip through the boundary, under the checkpoint's whole policy."""
        self._check([], options)
        clip = EncodedClip(data=data, kind=SourceKind.SERVER_INLINE, placeholder_ordinal=1)
        with closing(self._prepared(self._recordings, [clip], options)) as prepared:
            heard = next(prepared)
        able = heard.batch.estimated_frames
        answer = self._answer(heard.prefill, options) if able else nothing(options)
        return Transcript(
            text=answer.text,
            language=answer.language,
            duration=heard.batch.total_source_duration_micros / 1_000_000,
            model=self.info.name,
            usage=answer.usage,
        )

    def prove(self) -> None:
        """Raises where no question can be put, or none answered on this machine."""
        noise = np.random.default_rng(0).uniform(-0.5, 0.5, SAMPLE_RATE).astype(np.float32)
        (clip,) = prepare([_clip(noise)], self._pinned).clips
        heard = self._heard(self._ids(TranscribeOptions()), clip, never)
        vocabulary = text_setting(self._config, "vocab_size", max(heard.ids) + 1)
        if not all(0 <= token < vocabulary for token in heard.ids):
            raise CheckpointError("config.json: ids of audio are beyond the vocabulary")
        if len(heard.ids) < self._answering.positions:
            list(self._answering.tokens(_question(heard), TranscribeOptions(max_tokens=1)))

    def counts(self) -> dict[str, int]:
        return self.metrics.counts()

    def close(self) -> None:
        self._windows.close()
        self._recordings.close()

    def _audible(self, window: Samples) -> bool:
        return len(window) >= self._ear.min_samples

    def _prepared(
        self, stage: HostStage, clips: Iterable[EncodedClip], options: TranscribeOptions
    ) -> Generator[Prepared, None, None]:
        """In order; the next clip is prepared while the caller works on the last."""
        ids = self._ids(options)
        waiting = 0
        try:
            for clip in clips:
                with _refusing():
                    request = Request(
                        clips=(clip,), token_ids=tuple(ids), cancelled=options.cancelled
                    )
                    stage.try_submit(request)
                waiting += 1
                if waiting > AHEAD:
                    waiting -= 1
                    yield _take(stage)
            while waiting:
                waiting -= 1
                yield _take(stage)
        finally:
            for _ in range(waiting):  # of a call that failed: not the next one's
                stage.take().close()

    def _ids(self, options: TranscribeOptions) -> list[int]:
        """The question, with one id where its clip belongs."""
        pieces = self._prompt.pieces(options.prompt, options.language)
        placeholder = self._ear.placeholder(self._config)
        ids = splice(
            pieces, self._prompt.encode, {Medium.AUDIO: placeholder}, around=self._ear.around
        )
        if ids.count(placeholder) != 1:
            raise SentinelError("message text contains an audio placeholder")
        return ids

    def _prefill(self, request: Request, batch: WaveformBatch) -> Prefill:
        """On the stage's thread, where there is no MLX: plain arrays only."""
        (clip,) = batch.clips
        prompt = self._heard(request.token_ids, clip, request.cancelled)
        size = sum(array.nbytes for array in prompt.audio.values()) + TOKEN_BYTES * len(prompt.ids)
        return Prefill(positions=len(prompt.ids), host_bytes=size, payload=prompt)

    def _heard(self, ids: Sequence[int], clip: NormalizedClip, cancelled: Cancelled) -> Heard:
        heard = self._ear.hear(self._config, clip, cancelled)
        return replace(heard, ids=expand(ids, self._ear.placeholder(self._config), heard.ids))

    def _answer(self, prefill: Prefill, options: TranscribeOptions) -> WindowTranscript:
        return self._answering.answer(_question(prefill.payload), options)


def _question(heard: Heard) -> Question:
    inputs = {name: mx.array(array) for name, array in heard.audio.items()}
    return Question(ids=mx.array([heard.ids]), inputs=inputs)


def _take(stage: HostStage) -> Prepared:
    with stage.take() as outcome, _refusing():
        if isinstance(outcome, Prepared):
            return outcome
        raise outcome.error


@contextmanager
def _refusing() -> Iterator[None]:
    """What the stage says, told apart: the audio's fault, a cancellation, or the model's own."""
    try:
        yield
    except (PreprocessingCancelled, FeatureCancelled, NotAdmitted) as error:
        raise GivenUp(str(error)) from error
    except Rejected as error:
        if error.reason in _FAULTS:
            raise InputRejected(str(error)) from error
        raise


def _gemma3n(config: Config, clip: NormalizedClip, cancelled: Cancelled) -> Heard:
    heard = gemma3n.features([clip.samples], cancelled)
    if config.get("audio_soft_tokens_per_image", GEMMA3N_SOFT_TOKENS) != GEMMA3N_SOFT_TOKENS:
        raise CheckpointError(f"config.json: a clip takes {GEMMA3N_SOFT_TOKENS} soft tokens")
    soft = [_gemma3n_placeholder(config)] * GEMMA3N_SOFT_TOKENS
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
