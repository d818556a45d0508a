"""``voxqueue transcribe``: a whole archive by one command.

Owns words, options and exit statuses; app/archive does the work. Everything but a dry run's list
goes to stderr.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from app.archive.finding import find
from app.archive.folders import Rules
from app.archive.items import Item, Status
from app.archive.outputs import FORMATS, Layout, Target
from app.archive.progress import Progress, listing
from app.archive.report import Entry, InUse, Report
from app.archive.run import Plan, Run
from app.archive.server import Away, Server, reach
from app.archive.service import NotStarted, own_service
from app.settings import Settings

INTERRUPTED = 130  # as shells report SIGINT
Service = Callable[[], AbstractContextManager[str]]
"""Its address, while it is there."""
REPORT = "voxqueue-report.jsonl"

ServerUrl = Annotated[
    str | None,
    typer.Option(envvar="VOXQUEUE_SERVER", help="Of a running service; else one is started."),
]
ApiKey = Annotated[str, typer.Option(envvar="VOXQUEUE_API_KEY", help="Of that service.")]
DataDir = Annotated[Path | None, typer.Option(help="Of the service that is started.")]
InFlight = Annotated[int, typer.Option(min=1, max=256, help="Jobs in the queue at a time.")]
ReportPath = Annotated[
    Path | None,
    typer.Option("--report", help="JSON lines, or CSV beside them; by default below --out."),
]


def transcribe(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Files, folders, patterns, .zip, .tar[.gz|.zst], manifests, s3://bucket/prefix.",
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder of the outputs.")] = None,
    formats: Annotated[
        str, typer.Option("--format", help=f"Of {', '.join(FORMATS)}; several by commas.")
    ] = "txt",
    layout: Annotated[
        Layout | None,
        typer.Option(help="Outputs beside the recordings, or below --out in the same folders."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Such as en; else it is detected.")] = None,
    translate: Annotated[bool, typer.Option(help="Into English.")] = False,
    recursive: Annotated[bool, typer.Option(help="Folders within folders too.")] = True,
    pattern: Annotated[
        str | None, typer.Option("--glob", help="Of a folder take only such names, as '*.wav'.")
    ] = None,
    hidden: Annotated[bool, typer.Option(help="Take hidden files too.")] = False,
    force: Annotated[bool, typer.Option(help="Do even what is done, anew.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are in the way.")] = False,
    dry_run: Annotated[bool, typer.Option(help="List what would be done, and the hours.")] = False,
    report: ReportPath = None,
    server: ServerUrl = None,
    api_key: ApiKey = "",
    data_dir: DataDir = None,
    in_flight: InFlight = 16,
) -> None:
    """Transcribe recordings. Goes on after failures; repeated, it does only what is missing."""
    chosen = _formats(formats)
    target = Target(out=out, layout=layout or (Layout.ADJACENT if out is None else Layout.MIRROR))
    books, csv = report_paths(report, out)
    ignored = frozenset(str(path.absolute()) for path in (books, csv) if path)
    rules = Rules(recursive=recursive, pattern=pattern, hidden=hidden, ignored=ignored)
    max_bytes = Settings().batch_max_bytes
    if dry_run:
        for line in listing(list(find(paths, rules, max_bytes=max_bytes))):
            typer.echo(line)
        return
    fields = {
        "kind": "translation" if translate else "transcription",
        **({"language": language} if language else {}),
    }
    plan = Plan(
        target=target,
        formats=chosen,
        fields=fields,
        in_flight=in_flight,
        force=force,
        overwrite=overwrite,
    )
    with reported(), opened(books) as kept:
        items = list(find(paths, _without_outputs(rules, kept), max_bytes=max_bytes))
        own = service(server, data_dir, "--tts-model", "")
        entries = run_items(plan, items, kept, own, api_key=api_key)
        if csv:
            kept.write_csv(csv)
    finish(entries)


def run_items(
    plan: Plan, items: list[Item], report: Report, own: Service, *, api_key: str
) -> list[Entry]:
    """Take the items to their outcomes, and tell of it."""
    progress = Progress(items)
    stop = threading.Event()

    @contextmanager
    def connect() -> Iterator[Server]:
        with own() as url, closing(Server(url, api_key=api_key, stop=stop)) as server:
            yield server

    with stopping(stop):
        try:
            with progress.shown():
                return Run(plan, connect, report, progress, stop).run(items)
        finally:
            report.rewrite()
            progress.console.print(progress.summary(), markup=False)
            progress.console.print(f"Report: {report.path}", markup=False)


def finish(entries: list[Entry]) -> None:
    if any(entry.status is Status.FAILED for entry in entries):
        raise typer.Exit(1)


def service(url: str | None, data_dir: Path | None, *options: str) -> Service:
    """The running service, or one of the command's own."""
    if url:
        return lambda: nullcontext(reach(url))
    return lambda: own_service(data_dir or Settings().data_dir, *options)


def report_paths(given: Path | None, out: Path | None) -> tuple[Path, Path | None]:
    """Of the JSON lines, and of the CSV if that was asked for."""
    if given and given.suffix.lower() == ".csv":
        return given.with_suffix(".jsonl"), given
    return given or (out or Path()) / REPORT, None


def _without_outputs(rules: Rules, report: Report) -> Rules:
    """What earlier runs have written is no recording, and not worth a word."""
    mine = {
        str(Path(path).absolute()) for entry in report.entries.values() for path in entry.outputs
    }
    return Rules(
        recursive=rules.recursive,
        pattern=rules.pattern,
        hidden=rules.hidden,
        ignored=rules.ignored | mine,
    )


def _formats(given: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))
    unknown = [part for part in chosen if part not in FORMATS]
    if unknown or not chosen:
        raise typer.BadParameter(f"--format: of {', '.join(FORMATS)}, not {given!r}")
    return chosen


@contextmanager
def opened(path: Path) -> Iterator[Report]:
    try:
        report = Report(path)
    except OSError as error:
        typer.echo(f"voxqueue: the report {path} cannot be written: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    with report:
        yield report


@contextmanager
def reported() -> Iterator[None]:
    """What ends a run early, in a sentence; whatever was done is in the report."""
    try:
        yield
    except (Away, InUse, NotStarted) as error:
        typer.echo(f"voxqueue: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo("voxqueue: stopped; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """SIGTERM is told from Ctrl-C by nobody."""

    def interrupt(*_: object) -> None:
        stop.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
