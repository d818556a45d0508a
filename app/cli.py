"""The ``voxqueue`` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError

from app import telemetry
from app.access import require_guard
from app.cli_inspect import inspect
from app.cli_keys import keys_app
from app.cli_models import models_app
from app.cli_plain import fail, told_plainly
from app.cli_speak import speak
from app.cli_transcribe import transcribe
from app.db.engine import Database
from app.db.schema import require_current
from app.jobs.services import open_services
from app.logs import set_up_logging
from app.orphan import end_with_parent
from app.serve import serve
from app.settings import PREFIX, Settings
from app.states import Capability

cli = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Speech to text and text to speech behind the OpenAI audio API, as a task queue.",
)
cli.add_typer(models_app, name="models")
cli.add_typer(keys_app, name="keys")
cli.command()(inspect)
cli.command()(transcribe)
cli.command()(speak)

NoAuth = Annotated[
    bool, typer.Option("--insecure-no-auth", help="Ask nobody for an API key, on any address.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")]
DataDir = Annotated[Path | None, typer.Option(help="Directory of rows, blobs and broker.")]
SttModel = Annotated[str | None, typer.Option(help="Catalogue name or directory; '' for none.")]
TtsModel = Annotated[str | None, typer.Option(help="Catalogue name or directory; '' for none.")]
ChatModel = Annotated[
    str | None, typer.Option(help="Directory of a chat model, which then transcribes first.")
]
Depth = Annotated[int | None, typer.Option(help="Callers that may wait behind those in flight.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds until a waiting caller gets a 504.")]


@cli.command("serve")
def serve_command(
    *,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    stt_model: SttModel = None,
    tts_model: TtsModel = None,
    chat_model: ChatModel = None,
    audio_queue_depth: Depth = None,
    audio_request_timeout_seconds: Timeout = None,
    split_workers: Annotated[
        bool, typer.Option(help="One worker process for each kind of model.")
    ] = False,
    insecure_no_auth: NoAuth = False,
) -> None:
    """Run the whole service: front door, broker, worker and migrations."""
    settings = Settings().with_changes(
        host=host,
        port=port,
        data_dir=data_dir,
        stt_model=stt_model,
        tts_model=tts_model,
        chat_model=chat_model,
        audio_queue_depth=audio_queue_depth,
        audio_request_timeout_seconds=audio_request_timeout_seconds,
        auth="off" if insecure_no_auth else None,
    )
    set_up_logging(settings)
    end_with_parent()
    with told_plainly():
        telemetry.require()
        serve(settings, split_workers=split_workers, announce=_announce)


@cli.command()
def api(
    *,
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    insecure_no_auth: NoAuth = False,
) -> None:
    """Run a front door alone; database, broker and storage come from VOXQUEUE_… variables."""
    auth = "off" if insecure_no_auth else None
    settings = Settings().with_changes(host=host, port=port, data_dir=data_dir, auth=auth)
    _require_broker(settings)
    with told_plainly(), open_services(settings) as services:
        require_guard(services.database, settings)
    _become(settings, "app.api.server")


@cli.command()
def worker(
    *,
    kinds: Annotated[str, typer.Option(help="stt, tts or both.")] = "stt,tts",
    data_dir: DataDir = None,
    stt_model: SttModel = None,
    tts_model: TtsModel = None,
    chat_model: ChatModel = None,
) -> None:
    """Run a worker alone; it owns the models of the given kinds."""
    unknown = set(kinds.split(",")) - set(Capability)
    if unknown:
        fail(f"--kinds: {', '.join(sorted(unknown))} is not one of stt, tts")
    settings = Settings().with_changes(
        data_dir=data_dir, stt_model=stt_model, tts_model=tts_model, chat_model=chat_model
    )
    _become(settings, "tasks.worker", "--kinds", kinds)


@cli.command()
def flower() -> None:
    """Watch the queues and workers in a browser; FLOWER_… variables are Flower's own options."""
    os.execv(sys.executable, [sys.executable, "-m", "app.flower"])


@cli.command()
def doctor(*, data_dir: DataDir = None) -> None:
    """Check everything that the service stands on, and say what to do."""
    from app.doctor import examine

    sick = False
    for finding in examine(Settings().with_changes(data_dir=data_dir)):
        typer.echo(f"{'ok ' if finding.fine else 'BAD'}  {finding.name:<9} {finding.text}")
        sick = sick or not finding.fine
    if sick:
        raise typer.Exit(1)


@cli.command("migrate")
def migrate_command(
    revision: Annotated[str, typer.Argument(help="A revision; older ones downgrade.")] = "head",
    *,
    data_dir: DataDir = None,
) -> None:
    """Bring the database to this version's schema."""
    from app.db.migration import migrate

    with told_plainly():
        database = Database(Settings().with_changes(data_dir=data_dir).resolved_database_url)
        migrate(database, revision)
        if revision == "head":
            require_current(database)
        database.close()


def _become(settings: Settings, module: str, *arguments: str) -> NoReturn:
    """Replace this process; worker code is started by name, so that app/ never imports it."""
    _require_broker(settings)
    with told_plainly(), open_services(settings):
        telemetry.require()
    os.execve(
        sys.executable,
        [sys.executable, "-m", module, *arguments],
        {**os.environ, **settings.to_env()},
    )


def _require_broker(settings: Settings) -> None:
    if not settings.broker_url:
        fail("VOXQUEUE_BROKER_URL is not set; `voxqueue serve` brings its own broker")


def _announce(url: str) -> None:
    typer.echo(f"Voxqueue is ready at {url}. Try:\n")
    typer.echo(
        f"  curl -s {url}/v1/audio/speech -H 'Content-Type: application/json' "
        """-d '{"model":"kokoro-82m","input":"Hello world."}' --output speech.wav"""
    )
    for route in ("transcriptions", "translations"):
        typer.echo(f"  curl -s {url}/v1/audio/{route} -F file=@speech.wav -F model=whisper-base")
    typer.echo("\nCtrl-C stops it.")


def main() -> None:
    try:
        cli()
    except ValidationError as error:  # of Settings: the only ones read here
        for problem in error.errors(include_input=False, include_url=False):
            name = "_".join(str(part) for part in problem["loc"]).upper()
            typer.echo(f"voxqueue: {PREFIX}{name}: {problem['msg']}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
