"""Any other chat model that mlx-vlm loads with an audio tower, through mlx-vlm's own processor.

A checkpoint proves itself when it is loaded: it must tell noise from silence and say a word, so
that whatever it cannot do here fails the start and no caller. What it hears is bounded before: a
recording is decoded as strictly as anywhere at the boundary, at its own rate, and heard in windows
that every family takes whole. A provider is used on the thread that loaded it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soxr

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
from models.chat_network import loading, max_positions, require_extra, revision
from models.chat_prompt import instruction, marks, read_json
from models.pauses import quiet_cut
from models.preprocess.cancellation import PreprocessingCancelled
from models.preprocess.native import NativeBounds, NativeClip, decode_native
from models.transcript import SPACELESS, Transcript, Usage, WindowTranscript

WINDOW_SECONDS = 30.0  # families that take no more cut the rest off without a word
MIN_SECONDS = 0.1  # shorter than what some extractors take; nothing is said in it
BOUNDS = NativeBounds(max_duration_seconds=600)  # what the route takes; 460 MB as samples at most
DEFAULT_RATE = 16_000  # Hz, where a processor names none
# Their loaders heed that no code of the checkpoint may run. Others may have none to run.
CODELESS = frozenset(
    {
        "gemma4",
        "gemma4_unified",
        "mimo_v2",
        "minicpmo",
        "nemotron_h_nano_omni",
        "qwen3_omni_moe",
    }
)
# Their processors find the clip's place themselves, and leave a template's mark for it as text.
PLACED = frozenset({"minicpmo"})


def load(path: Path, name: str) -> ChatVlmProvider:
    """Load the checkpoint in a directory; CheckpointError says what is wrong with it."""
    with loading(path):
        require_extra()
        config = read_json(path / "config.json")
    model_type = config.get("model_type")
    with loading(f"{path}: mlx-vlm does not load the model type '{model_type}' as one that hears"):
        from mlx_vlm.utils import get_model_and_args

        _, family = get_model_and_args(config)  # before weights are looked at
        network, processor = _load(path, family)
        info = ModelInfo(
            name=name,
            family=family,
            capabilities=frozenset({Capability.STT}),
            translates=False,
            streams=True,
            revision=revision(path),
        )
        provider = ChatVlmProvider(info, network, processor, positions=max_positions(config))
        provider.prove()
    return provider


class ChatVlmProvider(Listener):
    window_seconds = WINDOW_SECONDS

    def __init__(self, info: ModelInfo, network: Any, processor: Any, *, positions: int) -> None:
        self.info = info
        self.sample_rate = _rate(processor)
        self._network, self._processor = network, processor
        tokenizer = processor.tokenizer.backend_tokenizer
        self._marks = marks(tokenizer)
        self._answering = Answering(
            network=network,
            tokenizer=tokenizer,
            stop=frozenset(processor.tokenizer.stopping_criteria.eos_token_ids),
            positions=positions,
        )

    def transcribe(
        self, windows: Sequence[Samples], options: TranscribeOptions
    ) -> list[WindowTranscript]:
        self._check(windows, options)
        return [self._hear(window, options) for window in windows]

    def transcribe_recording(self, data: bytes, options: TranscribeOptions) -> Transcript:
        self._check([], options)
        with _giving_up():
            clip = decode_native(data, bounds=BOUNDS, cancelled=options.cancelled)
        text, usage = "", Usage()
        for window in _windows(_resampled(clip, self.sample_rate), self.sample_rate):
            following = _Following(text, options)
            usage += self._hear(window, replace(options, on_text=following.add)).usage
            text = following.text
        return Transcript(
            text=text,
            language=options.language or "",
            duration=len(clip.samples) / clip.sample_rate,
            model=self.info.name,
            usage=usage,
        )

    def prove(self) -> None:
        """Raises where the model does not hear, or cannot answer on this machine."""
        quiet = np.zeros(self.sample_rate, np.float32)
        noise = np.random.default_rng(0).uniform(-0.5, 0.5, self.sample_rate).astype(np.float32)
        questions = [self._question(window, TranscribeOptions()) for window in (quiet, noise)]
        nothing_heard, something = map(self._embedded, questions)
        if mx.array_equal(nothing_heard, something):
            raise CheckpointError("noise and silence are the same to it")
        list(self._answering.tokens(questions[1], TranscribeOptions(max_tokens=1)))

    def _hear(self, window: Samples, options: TranscribeOptions) -> WindowTranscript:
        if len(window) < MIN_SECONDS * self.sample_rate:
            return nothing(options)
        if options.cancelled():
            raise GivenUp("the recording was given up")
        question = self._question(window, options)
        actual, most = question.ids.size, self._answering.positions
        if actual > most:
            raise InputRejected(
                f"audio prepared-prefill context limit exceeded for {self.info.family}: "
                f"actual {actual}, maximum {most}"
            )
        return self._answering.answer(question, options)

    def _question(self, window: Samples, options: TranscribeOptions) -> Question:
        from mlx_vlm.utils import prepare_inputs, should_add_special_tokens

        prompt = self._prompt(instruction(options.prompt, options.language, self._marks))
        try:
            found = prepare_inputs(
                self._processor,
                audio=[window],
                prompts=prompt,
                add_special_tokens=should_add_special_tokens(
                    self._network.config.model_type, self._processor
                ),
            )
        except ValueError as error:  # proven with another prompt, so the prompt is at fault
            raise InputRejected(str(error)) from error
        return Question(
            ids=found.pop("input_ids"),
            pixel_values=found.pop("pixel_values", None),
            mask=found.pop("attention_mask", None),
            inputs=found,
        )

    def _prompt(self, words: str) -> str:
        from mlx_vlm.prompt_utils import apply_chat_template

        placed = self.info.family in PLACED
        prompt: str = apply_chat_template(
            self._processor,
            self._network.config,
            words,
            num_audios=0 if placed else 1,
            enable_thinking=False,
        )
        return prompt

    def _embedded(self, question: Question) -> mx.array:
        found = self._network.get_input_embeddings(
            question.ids, question.pixel_values, mask=question.mask, **question.inputs
        )
        embedded: mx.array = found.inputs_embeds
        return embedded


class _Following:
    """The text of a recording, window after window, told piece by piece."""

    def __init__(self, text: str, options: TranscribeOptions) -> None:
        self.text = text
        self._options, self._begun = options, False

    def add(self, piece: str) -> None:
        if self.text and not self._begun and not self._follows_directly(piece):
            piece = f" {piece}"
        self._begun = True
        self.text += piece
        self._options.on_text(piece)

    def _follows_directly(self, piece: str) -> bool:
        spaced = piece[0].isspace() or self.text[-1].isspace()
        return spaced or self._options.language in SPACELESS


def _load(path: Path, family: str) -> tuple[Any, Any]:
    """The network and its processor; weights are read when they are used: those of eyes, never."""
    from mlx_vlm.utils import load

    _refuse_code(path, family)
    with warnings.catch_warnings(action="ignore"):  # of its own extractors' filters
        network, processor = load(
            str(path), lazy=True, trust_remote_code=False, local_files_only=True
        )
    if hasattr(processor, "clean_output"):
        raise CheckpointError("its answer is told from its thoughts only when it has ended")
    mx.eval(network.language_model.parameters())
    return network, processor


def _refuse_code(path: Path, family: str) -> None:
    wanted = {"model_file"} if family in CODELESS else {"model_file", "auto_map"}
    for file in sorted(path.glob("*config.json")):
        if wanted & read_json(file).keys():
            raise CheckpointError(f"{file.name} brings code of its own")


@contextmanager
def _giving_up() -> Iterator[None]:
    try:
        yield
    except PreprocessingCancelled as error:
        raise GivenUp(str(error)) from error


def _rate(processor: Any) -> int:
    """As mlx-vlm looks for it; Nemotron keeps it elsewhere."""
    extractor = getattr(processor, "feature_extractor", None)
    named = getattr(processor, "audio_sampling_rate", DEFAULT_RATE)
    return int(getattr(extractor, "sampling_rate", named))


def _resampled(clip: NativeClip, rate: int) -> Samples:
    if clip.sample_rate == rate:
        return clip.samples
    samples: Samples = soxr.resample(clip.samples, clip.sample_rate, rate, quality="HQ")
    return np.clip(samples, -1, 1)


def _windows(samples: Samples, rate: int) -> Iterator[Samples]:
    size = round(WINDOW_SECONDS * rate)
    while len(samples) > size:
        cut = quiet_cut(samples[:size], rate=rate)
        yield samples[:cut]
        samples = samples[cut:]
    yield samples
