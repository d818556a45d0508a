"""Private numbered sentinels: where in a prompt each image and each clip stands.

Content parts are flattened with a sentinel for each medium, the template renders them as text, and
`parse` finds them again, every one, once, and in order, or refuses. Without audio nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from models.base import InputRejected

PREFIX = "<|mlxcel_ordered_"
SUFFIX = "|>"

Message = Mapping[str, Any]


class SentinelError(InputRejected):
    """The sentinels of a request are not exactly those that were put there."""


class Medium(StrEnum):
    AUDIO = "audio"
    IMAGE = "image"


_PARTS = {
    "input_audio": Medium.AUDIO,
    "audio": Medium.AUDIO,
    "audio_url": Medium.AUDIO,
    "input_image": Medium.IMAGE,
    "image": Medium.IMAGE,
    "image_url": Medium.IMAGE,
}
_TEXTS = ("text", "input_text")
_UNSEEN = ("video", "video_url", "input_video")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    medium: Medium
    ordinal: int
    """Counts from one, for each medium by itself, over all messages."""


Piece = str | Placeholder


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattened:
    messages: tuple[Message, ...]
    audios: int
    images: int


def flatten(messages: Sequence[Message]) -> Flattened:
    """Each message with parts as one string; a request without audio stays as it is."""
    counts = dict.fromkeys(Medium, 0)
    if not any(_medium(part) is Medium.AUDIO for message in messages for part in _parts(message)):
        return Flattened(messages=tuple(messages), audios=0, images=0)
    flat = tuple(_flat(message, counts) for message in messages)
    return Flattened(messages=flat, audios=counts[Medium.AUDIO], images=counts[Medium.IMAGE])


def parse(prompt: str, *, audios: int, images: int) -> list[Piece]:
    """A rendered prompt as text and placeholders, which must be all that were declared."""
    found = dict.fromkeys(Medium, 0)
    pieces: list[Piece] = []
    for piece in _pieces(prompt):
        if isinstance(piece, Placeholder):
            found[piece.medium] += 1
            expected = found[piece.medium]
            if piece.ordinal != expected:
                raise SentinelError(
                    f"ordered {piece.medium} sentinel {piece.ordinal} is out of sequence; "
                    f"expected {expected}"
                )
        pieces.append(piece)
    for medium, declared in ((Medium.AUDIO, audios), (Medium.IMAGE, images)):
        if found[medium] < declared:
            raise SentinelError(f"ordered {medium} sentinel {found[medium] + 1} is missing")
        if found[medium] > declared:
            raise SentinelError(f"ordered {medium} sentinel {declared + 1} was never declared")
    return pieces


def strip(prompt: str) -> str:
    """The text alone, as plain tokenisation wants it."""
    return "".join(piece for piece in _pieces(prompt) if isinstance(piece, str))


def phi4mm_prompt(pieces: Sequence[Piece]) -> str:
    """Phi-4's numbered placeholders."""
    return "".join(
        piece if isinstance(piece, str) else f"<|{piece.medium}_{piece.ordinal}|>"
        for piece in pieces
    )


def splice(
    pieces: Sequence[Piece],
    encode: Callable[[str], list[int]],
    ids: Mapping[Medium, int],
    *,
    around: str = "",
) -> list[int]:
    """Retokenised text, and between it the one id that stands for each medium.

    `around` is text on both sides of each; it is tokenised with its neighbours, as if it had been
    written there.
    """
    tokens: list[int] = []
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        else:
            tokens += [*encode(text + around), ids[piece.medium]]
            text = around
    return tokens + encode(text)


def expand(tokens: Sequence[int], placeholder: int, soft_tokens: Sequence[int]) -> list[int]:
    """Each placeholder id replaced, in place, by what one clip or image takes."""
    return [token for old in tokens for token in (soft_tokens if old == placeholder else (old,))]


def _flat(message: Message, counts: dict[Medium, int]) -> Message:
    content = message.get("content")
    if isinstance(content, str):
        _refuse_injected(content)
        return message
    return {**message, "content": "".join(_flat_part(part, counts) for part in _parts(message))}


def _flat_part(part: Message, counts: dict[Medium, int]) -> str:
    medium = _medium(part)
    if medium is not None:
        counts[medium] += 1
        return f"{PREFIX}{medium}_{counts[medium]}{SUFFIX}"
    kind = part.get("type")
    if kind in _UNSEEN:
        return ""
    text = part.get("text")
    if kind not in _TEXTS or not isinstance(text, str):
        raise SentinelError(f"unsupported content part of type {kind!r}")
    _refuse_injected(text)
    return text


def _refuse_injected(text: str) -> None:
    if PREFIX in text:
        raise SentinelError("message text contains a reserved ordered-media sentinel")


def _parts(message: Message) -> Sequence[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _medium(part: Message) -> Medium | None:
    return _PARTS.get(str(part.get("type")))


def _pieces(prompt: str) -> Iterator[Piece]:
    start = 0
    while (at := prompt.find(PREFIX, start)) >= 0:
        if at > start:
            yield prompt[start:at]
        stop = prompt.find(SUFFIX, at)
        if stop < 0:
            raise _malformed("missing |>")
        yield _placeholder(prompt[at + len(PREFIX) : stop])
        start = stop + len(SUFFIX)
    if start < len(prompt):
        yield prompt[start:]


def _placeholder(body: str) -> Placeholder:
    kind, separator, ordinal = body.partition("_")
    if not separator:
        raise _malformed("missing ordinal")
    if not ordinal.isascii() or not ordinal.isdecimal() or ordinal.startswith("0"):
        raise _malformed("invalid ordinal")
    if kind not in set(Medium):
        raise _malformed("unknown kind")
    return Placeholder(medium=Medium(kind), ordinal=int(ordinal))


def _malformed(reason: str) -> SentinelError:
    return SentinelError(f"malformed ordered media sentinel: {reason}")
