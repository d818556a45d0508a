"""Whisper's tokens over the checkpoint's own tokenizer.json: special ids, languages, suppression.

Every special id is looked up by its content, so that one class serves English-only, multilingual
and large-v3 vocabularies; nothing here knows the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as Vocabulary

from models.base import CheckpointError, Task

FALLBACK_LANGUAGE = "en"
LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
SINGLE_SYMBOLS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
JOINED_SYMBOLS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
SYMBOLS = (*SINGLE_SYMBOLS, *JOINED_SYMBOLS.split())
MUSIC = "♩♪♫♬♭♮♯"  # of several tokens each: the first, which they share, is suppressed
NOT_FIRST = (" -", " '")  # fine within words
CONTROLS = (
    ("<|startoftranscript|>",),
    ("<|transcribe|>",),
    ("<|translate|>",),
    ("<|startofprev|>",),
    ("<|startoflm|>",),
    ("<|nospeech|>", "<|nocaptions|>"),
)


class Tokenizer:
    def __init__(self, vocabulary: Vocabulary, *, multilingual: bool, size: int) -> None:
        self.vocabulary = vocabulary
        self.multilingual = multilingual
        self.size = size
        """Of the logits: the timestamps may be in them and not in the vocabulary's file."""
        self.end = self._need("<|endoftext|>")
        self.start = self._need("<|startoftranscript|>")
        self.previous = self._find("<|startofprev|>")
        self.no_timestamps = self._need("<|notimestamps|>")
        self.no_speech = self._find("<|nospeech|>", "<|nocaptions|>")
        zero = self._find("<|0.00|>")
        self.first_timestamp = self.no_timestamps + 1 if zero is None else zero

    @classmethod
    def load(cls, path: Path, *, multilingual: bool, size: int) -> Tokenizer:
        file = path / "tokenizer.json"
        if not file.is_file():
            raise CheckpointError(f"{path} has no tokenizer.json")
        try:
            vocabulary = Vocabulary.from_file(str(file))
        except Exception as error:
            raise CheckpointError(f"{file}: {error}") from error
        return cls(vocabulary, multilingual=multilingual, size=size)

    @cached_property
    def languages(self) -> dict[str, int]:
        """Code -> token; none for an English-only model."""
        if not self.multilingual:
            return {}
        found = ((LANGUAGE.fullmatch(text), i) for text, i in self.vocabulary.get_vocab().items())
        return {match[1]: i for match, i in found if match and self.start < i < self.size}

    @cached_property
    def suppressed(self) -> list[int]:
        """Never generated: symbols of what is not spoken, and controls."""
        controls = (self._find(*names) for names in CONTROLS)
        return sorted({*self._non_speech(), *(i for i in controls if i is not None)})

    @cached_property
    def suppressed_first(self) -> list[int]:
        """Not generated as the first token: a space, and the end."""
        return [*self.encode(" "), self.end]

    def prompt(self, language: str, task: Task, *, timestamps: bool) -> list[int]:
        """What a transcription starts from. An unknown language means English."""
        tail = [] if timestamps else [self.no_timestamps]
        if not self.multilingual:
            return [self.start, *tail]
        spoken = self.languages.get(language) or self.languages[FALLBACK_LANGUAGE]
        return [self.start, spoken, self._task(task), *tail]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.vocabulary.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text among the ids: whatever follows the vocabulary's text is skipped."""
        return self.vocabulary.decode([i for i in ids if i < self.end])

    def _task(self, task: Task) -> int:
        translate = self._find("<|translate|>") if task == "translate" else None
        return self._need("<|transcribe|>") if translate is None else translate

    def _non_speech(self) -> Iterator[int]:
        yield from (self.encode(text)[0] for text in NOT_FIRST)
        for symbol in (*SYMBOLS, *MUSIC):
            for ids in (self.encode(symbol), self.encode(f" {symbol}")):
                if len(ids) == 1 or symbol in MUSIC:
                    yield ids[0]

    def _find(self, *names: str) -> int | None:
        found = (self.vocabulary.token_to_id(name) for name in names)
        return next((i for i in found if i is not None), None)

    def _need(self, name: str) -> int:
        found = self._find(name)
        if found is None:
            raise CheckpointError(f"tokenizer.json has no token {name}")
        return found
