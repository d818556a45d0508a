from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import soundfile
from sqlalchemy.exc import OperationalError

from app import broker
from app.errors import BadRequest, Busy, Unavailable, Unprocessable
from app.jobs import admission, lifecycle
from app.jobs.services import Services
from app.jobs.submit import Submission, Upload, submit
from app.states import JobState, Kind
from app.storage import StorageError
from tests.inprocess import get_job


def upload(seconds: float = 1.0, level: float = 0.1) -> Upload:
    file = io.BytesIO()
    soundfile.write(file, np.full(int(16_000 * seconds), level), 16_000, format="WAV")
    return Upload(file=file, size=len(file.getvalue()), name="a.wav")


def hearing(**values) -> Submission:
    return Submission(**{"kind": Kind.TRANSCRIPTION, "upload": upload(), "sync": False, **values})


def blobs(services: Services) -> list[str]:
    return [blob.key for blob in services.store.list("in/")]


def down(*_: object, **__: object) -> None:
    raise broker.BrokerDown("away")


def test_a_submitted_job_is_stored_queued_and_rung_for(services: Services) -> None:
    job = submit(services, hearing())
    assert get_job(services, job.id) == job
    assert (job.state, job.input_seconds, job.cost) == (JobState.QUEUED, 1.0, 1.0)
    assert blobs(services) == [f"in/{job.id}/source"]
    assert broker.count_messages(services.celery, job.queue) == 1


def test_a_full_queue_refuses_and_keeps_nothing(open_services: Callable[..., Services]) -> None:
    services = open_services(audio_queue_depth=1)
    submit(services, hearing(sync=True))
    with pytest.raises(Busy):
        submit(services, hearing(sync=True))
    assert len(blobs(services)) == 1
    submit(services, hearing())  # nobody waits for this one


def test_the_loser_of_a_race_for_the_last_slot_leaves_no_blob(
    open_services: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = open_services(audio_queue_depth=1)

    def full(*_: object) -> None:
        raise Busy

    monkeypatch.setattr(admission, "admit", full)
    with pytest.raises(Busy):
        submit(services, hearing(sync=True))
    assert blobs(services) == []


def test_the_same_key_and_request_are_one_job(services: Services) -> None:
    first = submit(services, hearing(idempotency_key="k"))
    again = submit(services, hearing(idempotency_key="k"))
    assert again.id == first.id
    assert len(blobs(services)) == 1
    assert submit(services, hearing(idempotency_key="k", owner="somebody")).id != first.id


@pytest.mark.parametrize(
    "other",
    [
        {"options": {"language": "fr"}},
        {"upload": upload(level=0.2)},
        {"kind": Kind.TRANSLATION},
        {"callback_url": "https://93.184.216.34/"},
    ],
)
def test_the_same_key_with_another_request_is_refused(services: Services, other: dict) -> None:
    submit(services, hearing(idempotency_key="k"))
    with pytest.raises(Unprocessable):
        submit(services, hearing(idempotency_key="k", **other))


def test_a_repetition_joins_even_when_the_queue_is_full(
    open_services: Callable[..., Services],
) -> None:
    services = open_services(audio_queue_depth=1)
    first = submit(services, hearing(sync=True, idempotency_key="k"))
    assert submit(services, hearing(sync=True, idempotency_key="k")).id == first.id


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\t", "ümlaut"])
def test_a_key_that_is_none_is_refused(services: Services, key: str) -> None:
    with pytest.raises(BadRequest):
        submit(services, hearing(idempotency_key=key))


def test_without_a_broker_who_waits_is_told_and_the_rest_waits(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "send", down)
    with pytest.raises(Busy):
        submit(services, hearing(sync=True))
    kept = submit(services, hearing())
    assert get_job(services, kept.id).enqueued_at is None
    keyed = submit(services, hearing(sync=True, idempotency_key="k"))
    assert get_job(services, keyed.id).state is JobState.QUEUED


def test_a_store_that_fails_is_the_service_s_fault(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("full")

    monkeypatch.setattr(services.store, "put", fail)
    with pytest.raises(Unavailable):
        submit(services, hearing())


def test_a_database_that_may_have_committed_leaves_the_recording(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("COMMIT", {}, Exception("gone"))

    monkeypatch.setattr(admission, "admit", fail)
    with pytest.raises(Unavailable):
        submit(services, hearing())
    assert len(blobs(services)) == 1


def test_a_cancelled_job_still_answers_for_its_key(services: Services) -> None:
    job = submit(services, hearing(idempotency_key="k"))
    lifecycle.cancel(services, job.id)
    assert submit(services, hearing(idempotency_key="k")).state is JobState.CANCELLED
