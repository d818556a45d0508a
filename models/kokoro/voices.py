"""The voice packs beside a checkpoint: which there are, and the style that one gives to a length.

A voice's name comes from a request, so it never reaches the file system unless it is one of the
names found there.
"""

from __future__ import annotations

import re
from pathlib import Path

from models.backend import mx
from models.base import CheckpointError, ModelError

DEFAULT_VOICE = "af_heart"
SAFE_NAME = re.compile(r"[A-Za-z0-9_-]+")


class Voices:
    def __init__(self, folder: Path, *, style: int) -> None:
        self._files = {
            file.stem: file
            for file in sorted(folder.glob("*.safetensors"))
            if SAFE_NAME.fullmatch(file.stem)
        }
        self._folder, self._style = folder, style
        self._packs: dict[str, mx.array] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def choose(self, asked: str | None) -> str:
        """The voice asked for, or the default where there is none of that name."""
        name = (asked or "").strip()
        return name if name in self._files else DEFAULT_VOICE

    def style(self, name: str, phonemes: int) -> mx.array:
        """[1, 2 * style]: a pack has one row for each number of phonemes."""
        pack = self._pack(name)
        return pack[max(0, min(phonemes, pack.shape[0]) - 1)]

    def _pack(self, name: str) -> mx.array:
        if name not in self._packs:
            self._packs[name] = self._read(name)
        return self._packs[name]

    def _read(self, name: str) -> mx.array:
        if name not in self._files:
            raise ModelError(f"voice {name!r} is not in {self._folder}")
        file = self._files[name]
        try:
            tensors = mx.load(str(file))
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{file}: {error}") from error
        pack = tensors.get("voice") if isinstance(tensors, dict) else None
        if not isinstance(pack, mx.array):
            raise CheckpointError(f"{file}: no tensor 'voice'")
        if pack.ndim != 3 or pack.shape[1:] != (1, 2 * self._style):
            raise CheckpointError(
                f"{file}: voice is {list(pack.shape)}, expected [n, 1, {2 * self._style}]"
            )
        pack = pack.astype(mx.float32)
        mx.eval(pack)
        return pack
