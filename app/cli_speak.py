"""``voxqueue speak``: texts of any length, each one WAV or one for each chapter.

Owns words, options and exit statuses; app/archive does the work.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.archive.items import Status
from app.archive.outputs import require_writable, shown
from app.archive.report import Entry, Report
from app.archive.server import Refused, Server, Stopped
from app.archive.speaking import NotSpoken, Speaker, Speech
from app.archive.texts import chapters
from app.cli_transcribe import (
    ApiKey,
    DataDir,
    InFlight,
    ReportPath,
    ServerUrl,
    finish,
    opened,
    report_paths,
    reported,
    service,
    stopping,
)


def speak(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Plain text or Markdown, in UTF-8.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the speech and its timing files.")],
    voice: Annotated[str | None, typer.Option(help="Else the default voice.")] = None,
    speed: Annotated[float, typer.Option(min=0.25, max=4.0)] = 1.0,
    by_chapter: Annotated[
        bool, typer.Option("--chapters", help="One WAV for each chapter, by headings.")
    ] = False,
    force: Annotated[bool, typer.Option(help="Do even what is done, anew.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace files that are in the way.")] = False,
    report: ReportPath = None,
    server: ServerUrl = None,
    api_key: ApiKey = "",
    data_dir: DataDir = None,
    in_flight: InFlight = 8,
) -> None:
    """Speak texts, however long. Nothing is dropped; a run that was stopped goes on."""
    fields = {"speed": str(speed), **({"voice": voice} if voice else {})}
    books, csv = report_paths(report, out)
    own = service(server, data_dir, "--stt-model", "")
    stop = threading.Event()
    with reported(), opened(books) as kept, stopping(stop):
        named = list(_speeches(paths, out, by_chapter=by_chapter))
        found = [_outcome(item, kept, fields, replace=force or overwrite) for item in named]
        if force or any(entry is None for entry in found):
            with own() as url, closing(Server(url, api_key=api_key, stop=stop)) as there:
                speaker = Speaker(there, fields, in_flight=in_flight, force=force)
                found = _speak_all(speaker, fields, named, found, kept)
        else:
            for entry in found:
                _tell(entry)
        entries = [entry for entry in found if entry]
        for entry in entries:
            kept.write(entry)
        kept.rewrite()
        if csv:
            kept.write_csv(csv)
    finish(entries)


def _outcome(
    named: Speech | Entry, report: Report, fields: dict[str, str], *, replace: bool
) -> Entry | None:
    """Where there is nothing to do for it."""
    if isinstance(named, Entry):
        return named
    there = named.target.exists() and named.timing.exists()
    known = report.entries.get(named.name)
    if known and known.status is Status.DONE:
        same = there and known.mark == named.mark(fields)
        return known if same else None
    if there and not replace:
        return Entry(id=named.name, status=Status.EXISTS)
    return None


def _speeches(paths: list[Path], out: Path, *, by_chapter: bool) -> Iterator[Speech | Entry]:
    """What there is to say; a file that cannot be read is an outcome already."""
    taken: Counter[Path] = Counter()
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            yield Entry(id=str(path), status=Status.FAILED, error=f"cannot be read: {error}")
            continue
        stem = out / path.stem
        taken[stem] += 1
        stem = stem if taken[stem] == 1 else stem.with_name(f"{stem.name}-{taken[stem]}")
        if not by_chapter:
            yield Speech(name=str(path), text=text, target=Path(f"{stem}.wav"))
            continue
        for number, chapter in enumerate(chapters(text), 1):
            name = f"{path}#{number} {chapter.title}".rstrip()
            yield Speech(name=name, text=chapter.text, target=Path(f"{stem}-{number:03d}.wav"))


def _speak_all(
    speaker: Speaker,
    fields: dict[str, str],
    named: list[Speech | Entry],
    found: list[Entry | None],
    report: Report,
) -> list[Entry | None]:
    entries: list[Entry | None] = []
    for speech, outcome in zip(named, found, strict=True):
        entry = outcome
        if isinstance(speech, Speech) and (outcome is None or speaker.force):
            entry = _speak_one(speaker, speech, fields)
            report.write(entry)
        _tell(entry)
        entries.append(entry)
    return entries


def _tell(entry: Entry | None) -> None:
    if entry:
        length = f", {entry.seconds:.1f} s" if entry.seconds else ""
        reason = f": {entry.error}" if entry.error else ""
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"{entry.status} {shown(entry.id)}{length}{reason}", markup=False)


def _speak_one(speaker: Speaker, speech: Speech, fields: dict[str, str]) -> Entry:
    try:
        require_writable(speech.target)
        spoken = speaker.speak(speech)
    except Stopped:
        raise KeyboardInterrupt from None
    except (NotSpoken, Refused) as error:
        return Entry(id=speech.name, status=Status.FAILED, error=str(error))
    except OSError as error:
        return Entry(id=speech.name, status=Status.FAILED, error=f"cannot be written: {error}")
    return Entry(
        id=speech.name,
        status=Status.DONE,
        seconds=round(spoken.seconds, 3),
        words=len(speech.text.split()),
        model=spoken.model,
        mark=speech.mark(fields),
        outputs=[str(speech.target), str(speech.timing)],
    )
