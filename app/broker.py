"""The Celery application and all its settings; nothing else in the service configures Celery.

A message carries a job's id and no more that counts: it is a doorbell, and a lost or doubled one
does no harm. Tasks are sent by name, so that the front door never imports worker code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError
from redis import RedisError

from app.states import Capability, Kind, Lane

TASKS = {
    Kind.TRANSCRIPTION: "voxqueue.transcribe",
    Kind.TRANSLATION: "voxqueue.translate",
    Kind.SPEECH: "voxqueue.synthesize",
}
HELP = "voxqueue.help"  # a part of a job that another worker leads
HELP_QUEUE = "stt.help"  # only recordings are shared
INVITATION_SECONDS = 10  # s; an older one is dropped: the worker that sent it sends more
# s; longer than any task. With the usual hour a long task would be given to a second worker while
# it runs; recovery here is the lease in the database, which notices a death within seconds.
VISIBILITY_SECONDS = 86_400
RESTORE_SECONDS = 100  # s between two looks for messages that nobody acknowledged in that time
CHANNEL = "jobs"
TEXT_PIECES = 65_536  # of one job that are kept; who is further behind is told so
TEXT_SECONDS = 3_600  # s that they are kept after the last one


class BrokerDown(RuntimeError):
    """The message could not be sent; the sweeper sends it later."""


def queue_name(capability: Capability, lane: Lane) -> str:
    return f"{capability}.{lane}"


def queue_names(capabilities: list[Capability]) -> list[str]:
    """In the order in which a worker reads them: every interactive queue before any bulk one.

    Invitations to help come last, and in a queue of their own, since the messages in the others are
    counted against the jobs that wait.
    """
    names = [queue_name(capability, lane) for lane in Lane for capability in capabilities]
    return names + ([HELP_QUEUE] if Capability.STT in capabilities else [])


def make_celery(
    broker_url: str,
    prefix: str,
    *,
    visibility_seconds: int = VISIBILITY_SECONDS,
    restore_seconds: int = RESTORE_SECONDS,
) -> Celery:
    celery = Celery("voxqueue", broker=_celery_url(broker_url))
    celery.conf.update(
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_pool="solo",  # MLX streams belong to the thread that made them
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,  # the solo pool cannot cancel
        worker_soft_shutdown_timeout=0.0,  # would only sleep inside the task
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": visibility_seconds,
            "unacked_restore_interval": restore_seconds,
            "unacked_restore_throttle": 1,  # of such intervals between two looks
            "queue_order_strategy": "priority",  # read the queues in order
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "global_keyprefix": prefix,
        },
        visibility_timeout=visibility_seconds,
        task_create_missing_queues=False,
        task_queues=[Queue(name) for name in queue_names(list(Capability))],
        task_default_queue="stt.interactive",
        task_publish_retry_policy={
            "max_retries": 2,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_hijack_root_logger=False,
        worker_disable_rate_limits=True,
    )
    return celery


def send(celery: Celery, job_id: str, *, kind: Kind, queue: str) -> None:
    """Ring for the job; raises BrokerDown within about half a second when nobody is there."""
    _send(celery, TASKS[kind], [job_id], queue=queue)


def invite(celery: Celery, job_id: str, attempt: int) -> None:
    """Ask a worker that has nothing to do to help with the running attempt; raises BrokerDown.

    It is told the attempt: the next one has not asked for help yet.
    """
    _send(celery, HELP, [job_id, attempt], queue=HELP_QUEUE, expires=INVITATION_SECONDS)


def _send(celery: Celery, task: str, args: list[Any], **options: Any) -> None:
    try:
        celery.send_task(task, args=args, **options)
    except (OperationalError, OSError) as error:
        raise BrokerDown(str(error)) from error


def count_messages(celery: Celery, queue: str) -> int:
    """Messages that wait in the queue; raises BrokerDown."""
    try:
        with celery.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
            channel: Any = connection.default_channel
            # Not passive: kombu then asks EXISTS, to which it does not add the key prefix.
            declared = channel.queue_declare(queue)
    except (OperationalError, OSError, RedisError) as error:
        raise BrokerDown(str(error)) from error
    return int(declared.message_count)


def _celery_url(broker_url: str) -> str:
    """With TLS the server's certificate is checked, which kombu does only when it is told to."""
    if not broker_url.startswith("rediss://") or "ssl_cert_reqs=" in broker_url:
        return broker_url
    return f"{broker_url}{'&' if '?' in broker_url else '?'}ssl_cert_reqs=required"


def redis_url(broker_url: str) -> str:
    """The same server in redis-py's spelling."""
    return broker_url.replace("redis+socket://", "unix://", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Of a job's text while it is made; each attempt tells it from the start."""

    attempt: int
    number: int
    """Counts up from 0, which is empty and says that the attempt tells its text at all."""
    text: str


def text_key(prefix: str, job_id: str) -> str:
    """Of the stream of a job's pieces: entry ``<attempt>-<number>`` has the field ``text``.

    The server takes no entry below the last one, so an attempt that was overtaken falls silent.
    """
    return f"{prefix}text:{job_id}"


class Announcer:
    """Tells waiting front doors how jobs get on: hints, never the truth."""

    def __init__(self, broker_url: str, prefix: str) -> None:
        self._redis = redis.Redis.from_url(
            redis_url(broker_url), socket_timeout=2, socket_connect_timeout=2
        )
        self._channel = prefix + CHANNEL
        self._prefix = prefix

    def tell(self, job_id: str, piece: Piece) -> None:
        """Append to the job's text. Raises redis.RedisError."""
        key, entry = text_key(self._prefix, job_id), f"{piece.attempt}-{piece.number}"
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(key, {"text": piece.text}, id=entry, maxlen=TEXT_PIECES)
            pipe.expire(key, TEXT_SECONDS)
            pipe.execute()

    def announce(self, job_id: str) -> None:
        """The job has reached its final state."""
        try:
            self._redis.publish(self._channel, job_id)
        except redis.RedisError:
            return  # who waits reads the row several times a second anyway

    def ping(self) -> None:
        """Raise redis.RedisError when the broker does not answer."""
        self._redis.ping()

    def close(self) -> None:
        self._redis.close()
