"""Writes a checkpoint anew with its matrices in few bits, among the pulled models.

Owns where it goes and that it is there whole or not at all; how the numbers are stored is the
family's business.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from models import registry
from models.base import CheckpointError
from models.catalog import checkpoint_path, models_dir

WRITERS = {"whisper": "models.whisper.native"}
"""Family to a module with ``write(source: Path, target: Path, *, bits: int)``."""


def quantise(name_or_path: str | Path, *, bits: int) -> Path:
    """The new checkpoint's directory, ``NAME-8bit`` for 8. Imports MLX."""
    source = checkpoint_path(name_or_path).absolute()
    family = registry.detect(source)
    if family not in WRITERS:
        raise CheckpointError(f"{source.name} is a {family} model, which nothing quantises")
    target = models_dir() / f"{source.name}-{bits}bit"
    if target.exists():
        raise CheckpointError(f"{target} is there already: remove it to have it written anew")
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as folder:
        staged = Path(folder) / target.name
        staged.mkdir()
        try:
            import_module(WRITERS[family]).write(source, staged, bits=bits)
        except (OSError, RuntimeError) as error:  # MLX raises the latter for a full disk
            raise CheckpointError(f"{target} was not written: {error}") from error
        staged.rename(target)
    return target
