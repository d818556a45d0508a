"""The worker process: load the models, join the queue, run jobs one at a time on the main thread.

``python -m tasks.worker --kinds stt,tts``; every other setting comes from the environment.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

import structlog
from celery import Celery

from app import telemetry
from app.broker import HELP, TASKS, queue_names
from app.clock import new_id, now
from app.db import queries
from app.db.records import LoadedModel, Worker
from app.jobs.services import Services, open_services
from app.jobs.workers import configured
from app.logs import set_up_logging
from app.orphan import end_with_parent
from app.settings import Settings
from app.states import Capability, Kind
from app.supervisor import RESTART_STATUS
from models import registry
from models.base import ModelError, SpeechProvider
from models.catalog import catalogue
from tasks import memory, stopping
from tasks.draining import Draining
from tasks.heartbeat import Heartbeat
from tasks.pulse import Pulse
from tasks.runner import Runner, capabilities

log = structlog.get_logger()


def load_models(settings: Settings, wanted: Sequence[Capability]) -> dict[Kind, SpeechProvider]:
    """For each kind of job the first of the configured models that loads and does it."""
    providers: dict[Kind, SpeechProvider] = {}
    for capability in wanted:
        for name in configured(settings, capability):
            if provider := _load(capability, name):
                for kind in _kinds(capability, provider):
                    providers.setdefault(kind, provider)
    return providers


def _load(capability: Capability, name: str) -> SpeechProvider | None:
    try:
        return registry.load(name)
    except (ModelError, OSError) as error:
        log.warning("model_not_loaded", capability=capability, model=name, error=str(error))
        sys.stderr.write(f"voxqueue: {name} ({capability}) does not load: {_advice(name, error)}\n")
        return None


def _advice(name: str, error: Exception) -> str:
    """One line for whoever sits at the terminal: why, and what to do."""
    why = " ".join(str(error).split())
    if "run `" in why:
        return f"{why}, then start again"
    mend = f"run `voxqueue models pull --force {name}`" if name in catalogue() else "mend it"
    return f"{why}; {mend} or name another model, then start again"


def _kinds(capability: Capability, provider: SpeechProvider) -> list[Kind]:
    """Of a model that is meant for this capability, whatever else it can do."""
    model = _describe_model(provider)
    return [kind for kind in Kind if kind.capability is capability and model.serves(kind)]


def describe(worker_id: str, state: str, providers: dict[Kind, SpeechProvider]) -> Worker:
    moment = now()
    return Worker(
        id=worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        state=state,
        started_at=moment,
        seen_at=moment,
        models=tuple(dict.fromkeys(map(_describe_model, providers.values()))),
    )


def _describe_model(provider: SpeechProvider) -> LoadedModel:
    info = provider.info
    return LoadedModel(
        name=info.name,
        family=info.family,
        capabilities=tuple(Capability(item) for item in sorted(info.capabilities)),
        revision=info.revision,
        multilingual=info.multilingual,
        voices=info.voices,
        translates=info.translates,
    )


def serve(services: Services, providers: dict[Kind, SpeechProvider]) -> None:
    """Run until SIGTERM; the job in hand is handed back at its next checkpoint."""
    worker = describe(new_id("wkr"), "ready", providers)
    worker = replace(worker, memory=memory.measure(services.settings.mlx_cache_bytes))
    runner = Runner(services=services, worker=worker, providers=providers, draining=Draining())
    register(services.celery, runner)
    stopping.install(runner)
    with services.database.writing() as connection:
        queries.put_worker(connection, worker)
    heartbeat = Heartbeat(runner)
    heartbeat.start()
    pulse = Pulse(
        services.celery,
        f"{worker.id}@{worker.host}",
        seconds=services.settings.heartbeat_seconds,
    )
    pulse.start()
    log.info("worker_ready", worker=worker.id, models=[model.name for model in worker.models])
    try:
        services.celery.worker_main(
            [
                "worker",
                "--queues=" + ",".join(queue_names(list(capabilities(providers)))),
                f"--hostname={worker.id}@{worker.host}",
                "--loglevel=WARNING",
                "--without-gossip",
                "--without-mingle",
            ]
        )
    finally:
        pulse.stop()
        heartbeat.stop()
        with services.database.writing() as connection:
            queries.delete_worker(connection, worker.id)
    if runner.worn_out:
        sys.exit(RESTART_STATUS)


def register(celery: Celery, runner: Runner) -> None:
    """One Celery task for each kind of job, and one for helping: so Flower tells them apart."""

    def work(job_id: str) -> None:
        runner.run(job_id)
        memory.look_after(runner)

    def assist(job_id: str, attempt: int) -> None:
        runner.help(job_id, attempt)
        memory.look_after(runner)

    for name in TASKS.values():
        celery.task(name=name)(work)
    celery.task(name=HELP)(assist)


def main() -> None:
    parser = argparse.ArgumentParser(prog="voxqueue worker")
    parser.add_argument("--kinds", default="stt,tts", help="stt, tts or both")
    kinds = parser.parse_args().kinds
    settings = Settings()
    set_up_logging(settings)
    telemetry.set_up("worker")
    end_with_parent()
    wanted = [Capability(kind) for kind in kinds.split(",")]
    with open_services(settings) as services:
        providers = load_models(settings, wanted)
        if not providers:
            sys.exit("no model could be loaded: see the messages above")
        serve(services, providers)


if __name__ == "__main__":
    main()
