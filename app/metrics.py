"""The numbers of one front door for Prometheus, in a registry of its own.

Requests are counted as they are answered. What the database knows is read when the numbers are
asked for; finished jobs are counted from the start of the process, so every front door counts all
of them: take the ``max`` over front doors, not the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db import counts, queries
from app.db.counts import Finished
from app.db.engine import Database
from app.db.records import Worker
from app.preprocess_metrics import PreprocessMetrics
from app.settings import Settings
from app.states import Capability, DeliveryState, JobState, Lane

LATENCY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # s
DURATION = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400)  # s
SPEED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # seconds of work for a second of audio
# s; a job's end is stamped a moment before its transaction is seen, so the last ones wait a little.
SETTLED_SECONDS = 5

log = structlog.get_logger()


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "voxqueue_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "voxqueue_request_seconds",
            "Time until a request was answered.",
            ["method", "route"],
            buckets=LATENCY,
            registry=self.registry,
        )
        self._jobs = Jobs(self.registry)
        self._preprocess = PreprocessMetrics()
        self._counted_until = now()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, status).inc()
        self.latency.labels(method, route).observe(seconds)

    def render(self, database: Database, settings: Settings) -> bytes:
        """In Prometheus' text format; without the database's numbers when it does not answer."""
        snapshot = CollectorRegistry()
        try:
            with database.reading() as connection:
                self._count_finished(connection)
                live = _live_workers(connection, settings)
                snapshot.register(Snapshot(connection, settings, live))
                self._preprocess.update(live)
        except SQLAlchemyError as error:
            log.warning("metrics_incomplete", error=str(error))
        own = generate_latest(self.registry) + generate_latest(snapshot)
        return own + self._preprocess.render()

    def _count_finished(self, connection: Connection) -> None:
        until = now() - timedelta(seconds=SETTLED_SECONDS)
        if until > self._counted_until:
            for job in counts.finished_between(connection, self._counted_until, until):
                self._jobs.count(job)
            self._counted_until = until


class Jobs:
    """What finished jobs add up to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._finished = Counter(
            "voxqueue_jobs_finished", "Jobs ended.", ["kind", "state"], registry=registry
        )
        self._wait = Histogram(
            "voxqueue_job_wait_seconds",
            "Time between a job's acceptance and its first start.",
            ["kind"],
            buckets=DURATION,
            registry=registry,
        )
        self._run = Histogram(
            "voxqueue_job_run_seconds",
            "Time that the last attempt at a job took.",
            ["kind"],
            buckets=DURATION,
            registry=registry,
        )
        self._audio = Counter(
            "voxqueue_audio_seconds",
            "Seconds of audio heard or spoken.",
            ["kind"],
            registry=registry,
        )
        self._helped = Counter(
            "voxqueue_helped_audio_seconds",
            "Seconds of audio that workers heard of recordings that another one led.",
            ["kind"],
            registry=registry,
        )
        self._speed = Histogram(
            "voxqueue_real_time_factor",
            "Seconds of work for each second of audio.",
            ["kind"],
            buckets=SPEED,
            registry=registry,
        )
        self._again = Counter(
            "voxqueue_job_redeliveries",
            "Attempts at jobs beyond the first one of each.",
            ["kind"],
            registry=registry,
        )

    def count(self, job: Finished) -> None:
        self._finished.labels(job.kind, job.state).inc()
        self._again.labels(job.kind).inc(max(job.attempt - 1, 0))
        if job.started_at:
            self._wait.labels(job.kind).observe((job.started_at - job.created_at).total_seconds())
        if job.state is JobState.SUCCEEDED and (run := job.metrics.get("run_seconds")) is not None:
            self._run.labels(job.kind).observe(run)
            audio = job.metrics.get("audio_seconds", 0.0)
            self._audio.labels(job.kind).inc(audio)
            self._helped.labels(job.kind).inc(job.metrics.get("helped_seconds", 0.0))
            if audio:
                self._speed.labels(job.kind).observe(run / audio)


class Snapshot(Collector):
    """How things stand at this moment; read at once, since the connection is only lent."""

    def __init__(self, connection: Connection, settings: Settings, live: list[Worker]) -> None:
        moment = now()
        self._families = [
            *_queues(connection, moment),
            *_workers(live),
            _lease(connection, moment, settings),
            _deliveries(connection),
        ]

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _queues(connection: Connection, moment: datetime) -> Iterator[Metric]:
    labels = ["capability", "lane", "state"]
    count = GaugeMetricFamily("voxqueue_jobs", "Jobs not finished.", labels=labels)
    age = GaugeMetricFamily(
        "voxqueue_jobs_oldest_seconds", "Age of the oldest job not finished.", labels=labels
    )
    found = {(item.capability, item.lane, item.state): item for item in counts.waiting(connection)}
    for values in product(Capability, Lane, (JobState.QUEUED, JobState.RUNNING)):
        queue = found.get(values)  # an empty one is a 0, not a gap
        count.add_metric(values, queue.count if queue else 0)
        age.add_metric(values, (moment - queue.oldest).total_seconds() if queue else 0.0)
    yield count
    yield age


def _live_workers(connection: Connection, settings: Settings) -> list[Worker]:
    after = now() - timedelta(seconds=settings.worker_stale_seconds)
    return queries.live_workers(connection, after)


def _workers(live: list[Worker]) -> Iterator[Metric]:
    count = GaugeMetricFamily("voxqueue_workers", "Live workers.", labels=["capability"])
    for capability in Capability:
        count.add_metric([capability], sum(worker.offers(capability) for worker in live))
    memory = GaugeMetricFamily(
        "voxqueue_worker_memory_bytes", "Memory of a worker, by holder.", labels=["worker", "of"]
    )
    for worker in live:
        for holder, size in (worker.memory or {}).items():
            memory.add_metric([worker.id, holder], size)
    yield count
    yield memory


def _lease(connection: Connection, moment: datetime, settings: Settings) -> Metric:
    ends = counts.earliest_lease(connection)
    age = settings.lease_seconds - (ends - moment).total_seconds() if ends else 0.0
    return GaugeMetricFamily(
        "voxqueue_lease_age_seconds",
        "Time since the running job that was silent for longest was heard of.",
        value=max(age, 0.0),
    )


def _deliveries(connection: Connection) -> Metric:
    family = GaugeMetricFamily(
        "voxqueue_webhook_deliveries", "Deliveries of webhooks kept.", labels=["state"]
    )
    found = counts.deliveries_by_state(connection)
    for state in DeliveryState:
        family.add_metric([state], found.get(state, 0))
    return family
