"""Callbacks to a receiver of our own: signed, tried again, told once, and nowhere they must not go."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from standardwebhooks import Webhook

from tests.cluster import Cluster, cluster, holding, recording
from tests.harness import eventually

SECRET = "whsec_" + base64.b64encode(b"of these tests and nothing else").decode()


class Receiver:
    """Answers with the statuses it was given, the last one for ever."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.headers: dict[str, str] = {}
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.received.append((self.path, dict(self.headers), body))
                more = len(receiver.statuses) > 1
                self.send_response(receiver.statuses.pop(0) if more else receiver.statuses[0])
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,)).start()

    def at(self, path: str) -> list[tuple[dict[str, str], bytes]]:
        return [(headers, body) for where, headers, body in self.received if where == path]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Cluster]:
    changes = {
        "webhook_secret": SECRET,
        "webhook_allow": "127.0.0.1",
        "webhook_backoff_seconds": 0.1,
        "webhook_attempts": 3,
    }
    with cluster(tmp_path_factory.mktemp("webhooks"), model, **changes) as made:
        made.start_worker()
        made.start_front()
        yield made


def say(house: Cluster, text: str, callback: str) -> httpx2.Response:
    return house.fronts[-1].client.post(
        "/v1/audio/speech",
        json={"model": "m", "input": text, "callback_url": callback},
        headers={"Prefer": "respond-async"},
    )


def delivery(house: Cluster, job: str) -> dict:
    shown = house.fronts[-1].client.get(f"/v1/jobs/{job}").json()
    return shown["deliveries"][0] if shown["deliveries"] else {"status": "none"}


def test_the_final_state_is_told_and_signed(house: Cluster, receiver: Receiver) -> None:
    job = say(house, "call me", f"{receiver.url}/a").json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "delivered")
    ((headers, body),) = receiver.at("/a")
    lower = {name.lower(): value for name, value in headers.items()}
    event = Webhook(SECRET).verify(body, lower)
    assert event["type"] == "job.succeeded"
    assert (event["data"]["id"], event["data"]["status"]) == (job, "succeeded")
    found = delivery(house, job)
    assert found["id"] == lower["webhook-id"]
    assert [entry["status"] for entry in found["log"]] == [200]


def test_a_form_can_name_a_callback_too(house: Cluster, receiver: Receiver) -> None:
    answer = house.fronts[-1].hear(recording(), data={"callback_url": f"{receiver.url}/form"})
    job = answer.json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "delivered")
    assert len(receiver.at("/form")) == 1


def test_failures_and_cancellations_are_told_too(house: Cluster, receiver: Receiver) -> None:
    with holding(house.model):
        say(house, "RAISE", f"{receiver.url}/failed")
        job = say(house, "not wanted", f"{receiver.url}/cancelled").json()["id"]
        house.fronts[-1].client.delete(f"/v1/jobs/{job}")
    eventually(lambda: receiver.at("/failed") and receiver.at("/cancelled"))
    assert b'"job.failed"' in receiver.at("/failed")[0][1]
    assert b'"job.cancelled"' in receiver.at("/cancelled")[0][1]


def test_a_delivery_is_tried_again_under_its_id(house: Cluster, receiver: Receiver) -> None:
    receiver.statuses = [500, 200]
    job = say(house, "again", f"{receiver.url}/again").json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "delivered")
    ids = {headers["webhook-id"] for headers, _ in receiver.at("/again")}
    assert (len(receiver.at("/again")), len(ids)) == (2, 1)
    assert [entry["status"] for entry in delivery(house, job)["log"]] == [500, 200]


def test_a_receiver_that_never_takes_it_is_given_up(house: Cluster, receiver: Receiver) -> None:
    receiver.statuses = [503]
    job = say(house, "never", f"{receiver.url}/never").json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "failed")
    assert len(receiver.at("/never")) == 3
    receiver.statuses = [410]
    job = say(house, "unwanted", f"{receiver.url}/unwanted").json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "failed")
    assert len(receiver.at("/unwanted")) == 1


def test_a_redirect_is_not_followed(house: Cluster, receiver: Receiver) -> None:
    receiver.statuses = [307]
    receiver.headers = {"Location": f"{receiver.url}/elsewhere", "Content-Length": "0"}
    job = say(house, "moved", f"{receiver.url}/moved").json()["id"]
    eventually(lambda: delivery(house, job)["status"] == "failed")
    assert receiver.at("/elsewhere") == []


def test_private_addresses_are_refused_at_submit(house: Cluster) -> None:
    answer = say(house, "refused", "http://[::1]:9/hook")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "callback_url"


def test_a_state_that_nobody_was_there_to_tell_is_told_later(
    house: Cluster, receiver: Receiver
) -> None:
    with holding(house.model):
        job = say(house, "outbox", f"{receiver.url}/outbox").json()["id"]
        house.fronts[-1].process.kill()
    house.wait(job)
    assert receiver.at("/outbox") == []
    house.start_front()
    eventually(lambda: receiver.at("/outbox"))
    eventually(lambda: delivery(house, job)["status"] == "delivered")
    assert len(receiver.at("/outbox")) == 1
