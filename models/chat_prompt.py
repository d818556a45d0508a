"""A chat checkpoint's own tokenizer and template: a request for a transcript, as token ids.

Clips keep their place through the template by their sentinels (models/preprocess/placeholders).
Knows no network and no features; jinja2 comes with the optional extra ``chat``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from tokenizers import Tokenizer

from models.base import CheckpointError
from models.preprocess.placeholders import Piece, SentinelError, flatten, parse

DEFAULT_PROMPT = "Transcribe audio to text"


class ChatPrompt:
    def __init__(self, path: Path) -> None:
        self.tokenizer = _tokenizer(path / "tokenizer.json")
        self._marks = marks(self.tokenizer)
        self._settings = read_json(path / "tokenizer_config.json")
        self._template = _template(path, self._settings)
        self.stop = _stop_tokens(path)

    def pieces(self, prompt: str | None, language: str | None) -> list[Piece]:
        """The rendered conversation, with a placeholder where the one clip belongs."""
        words = instruction(prompt, language, self._marks)
        parts = [{"type": "text", "text": words}, {"type": "input_audio"}]
        flat = flatten([{"role": "user", "content": parts}])
        rendered = self._template(
            messages=list(flat.messages),
            add_generation_prompt=True,
            **_special_tokens(self._settings),
        )
        return parse(rendered, audios=flat.audios, images=flat.images)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def instruction(prompt: str | None, language: str | None, reserved: Iterable[str]) -> str:
    """What the model is told to do; words that it would take for its own marks are refused."""
    words = prompt or DEFAULT_PROMPT
    if language:
        words += f" (language: {language})"
    if any("\ud800" <= letter <= "\udfff" for letter in words):  # as JSON can escape them
        raise SentinelError("message text contains half a character")
    for mark in reserved:
        if mark in words:
            raise SentinelError(f"message text contains the model's own mark {mark}")
    return words


def marks(tokenizer: Tokenizer) -> frozenset[str]:
    """Texts that stand for turns, media and the like wherever they are written."""
    added = tokenizer.get_added_tokens_decoder().values()
    return frozenset(token.content for token in added if token.special)


def read_json(file: Path) -> dict[str, Any]:
    """An absent file is empty."""
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file.name}: {error}") from error
    return found if isinstance(found, dict) else {}


def _stop_tokens(path: Path) -> frozenset[int]:
    """The ids that end an answer, from the first file that names any."""
    config = read_json(path / "config.json")
    for holder in (read_json(path / "generation_config.json"), config, config.get("text_config")):
        found = (holder or {}).get("eos_token_id")
        ids = found if isinstance(found, list) else [found]
        if found is not None and all(isinstance(item, int) for item in ids):
            return frozenset(ids)
    raise CheckpointError("neither generation_config.json nor config.json ends an answer")


def _tokenizer(file: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exceptions
        raise CheckpointError(f"{file.name}: {error}") from error


def _template(path: Path, settings: dict[str, Any]) -> Callable[..., str]:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    render: Callable[..., str] = environment.from_string(_template_text(path, settings)).render
    return render


def _template_text(path: Path, settings: dict[str, Any]) -> str:
    """Where checkpoints of three generations keep it."""
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    for holder in (read_json(path / "chat_template.json"), settings):
        if isinstance(text := holder.get("chat_template"), str):
            return text
    raise CheckpointError("there is no chat template")


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like; older files keep them as objects."""
    return {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in settings.items()
        if name.endswith("_token") and _is_token(value)
    }


def _is_token(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "content" in value)


def _refuse(message: str) -> NoReturn:
    raise CheckpointError(f"the chat template refuses a transcription: {message}")
