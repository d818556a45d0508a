from __future__ import annotations

import json
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update
from standardwebhooks import Webhook

from app.clock import now
from app.db import deliveries, tables
from app.db.records import Delivery
from app.jobs import lifecycle, post, webhooks
from app.jobs.services import Services
from app.states import DeliveryState
from tests.inprocess import add_job

SIGNER = Webhook(b"a secret of these tests")


class Receiver:
    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []

    def __call__(self, url: str, body: bytes, headers: dict[str, str], **_: object) -> int:
        self.sent.append((url, body, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def receive(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Receiver]:
    def install(*answers: int | Exception) -> Receiver:
        receiver = Receiver(*answers)
        monkeypatch.setattr(post, "post", receiver)
        return receiver

    return install


def finished(services: Services) -> str:
    job = add_job(services, callback_url="https://example.com/hook")
    lifecycle.cancel(services, job.id)
    return job.id


def only(services: Services, job_id: str) -> Delivery:
    with services.database.reading() as connection:
        (delivery,) = deliveries.of_job(connection, job_id)
    return delivery


def make_due(services: Services) -> None:
    with services.database.writing() as connection:
        past = now() - timedelta(seconds=1)
        connection.execute(update(tables.deliveries).values(run_after=past))


def test_a_delivery_carries_the_job_and_a_signature(
    services: Services, receive: Callable[..., Receiver]
) -> None:
    receiver = receive(200)
    job_id = finished(services)
    assert webhooks.deliver(services, SIGNER) == 1
    ((url, body, headers),) = receiver.sent
    assert url == "https://example.com/hook"
    assert SIGNER.verify(body, headers)["data"]["id"] == job_id
    assert json.loads(body)["type"] == "job.cancelled"
    assert only(services, job_id).state is DeliveryState.DELIVERED
    assert webhooks.deliver(services, SIGNER) == 0


def test_failures_are_logged_and_tried_later_under_the_same_id(
    services: Services, receive: Callable[..., Receiver]
) -> None:
    receiver = receive(500, post.NotDelivered("refused"), 204)
    job_id = finished(services)
    for _ in range(3):
        webhooks.deliver(services, SIGNER)
        make_due(services)
    delivery = only(services, job_id)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 3)
    kinds = [entry.get("status") or entry["error"] for entry in delivery.log]
    assert kinds == [500, "refused", 204]
    assert len({headers["webhook-id"] for _, _, headers in receiver.sent}) == 1


def test_the_pauses_grow(services: Services, receive: Callable[..., Receiver]) -> None:
    receive(500, 500)
    job_id = finished(services)
    pauses = []
    for _ in range(2):
        before = now()
        webhooks.deliver(services, SIGNER)
        pauses.append((only(services, job_id).run_after - before).total_seconds())
        make_due(services)
    assert pauses == [pytest.approx(5, abs=3), pytest.approx(20, abs=3)]


def test_it_is_given_up_after_so_many_attempts_or_when_told_to(
    open_services: Callable[..., Services], receive: Callable[..., Receiver]
) -> None:
    services = open_services(webhook_attempts=2)
    receive(500, 500)
    job_id = finished(services)
    for _ in range(3):
        webhooks.deliver(services, SIGNER)
        make_due(services)
    assert (only(services, job_id).state, only(services, job_id).attempts) == (
        DeliveryState.FAILED,
        2,
    )
    receive(410)
    unwanted = finished(services)
    webhooks.deliver(services, SIGNER)
    assert only(services, unwanted).state is DeliveryState.FAILED


def test_a_delivery_in_other_hands_is_left_to_them(
    services: Services, receive: Callable[..., Receiver]
) -> None:
    receiver = receive()
    job_id = finished(services)
    with services.database.writing() as connection:
        until = now() + timedelta(minutes=1)
        assert deliveries.claim(connection, only(services, job_id), until=until)
    assert webhooks.deliver(services, SIGNER) == 0
    with services.database.writing() as connection:
        stale = Delivery(id=only(services, job_id).id, job_id=job_id, run_after=now())
        assert not deliveries.claim(connection, stale, until=now())
    assert receiver.sent == []


def test_the_installation_s_own_secret_is_made_once_and_private(
    open_services: Callable[..., Services],
) -> None:
    settings = open_services().settings
    first, second = webhooks.open_signer(settings), webhooks.open_signer(settings)
    assert first.sign("m", now(), "x") == second.sign("m", now(), "x")
    kept = Path(settings.data_dir) / "webhook-secret"
    assert kept.stat().st_mode & 0o077 == 0
    assert kept.read_text().startswith("whsec_")


def test_what_a_name_has_become_is_judged_again_at_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rebound(*_: object, **__: object) -> list[tuple]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    with pytest.raises(post.NotDelivered, match=r"refused: rebinding\.example is 127\.0\.0\.1"):
        post.post("http://rebinding.example/", b"", {}, seconds=1, allow="")
