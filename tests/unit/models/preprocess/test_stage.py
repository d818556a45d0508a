"""Section 5.2: the bounded stage, its guard, its texts and what it counts."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from models.base import ModelError
from models.preprocess.cancellation import CancelFlag, Checkpoint, poll_at
from models.preprocess.channel import Channel, Closed, Full
from models.preprocess.features.errors import FeatureCancelled, FeatureError
from models.preprocess.metrics import AudioMetrics
from models.preprocess.reservation import Ledger, MemoryRefused
from models.preprocess.stage import (
    HostStage,
    NotAdmitted,
    Prefill,
    Prepared,
    Rejected,
    Request,
    StageLimits,
)

SOON = 20  # s; far more than any step takes, so that a broken hand-off fails rather than hangs


def produce(request, batch):
    positions = len(request.token_ids) + batch.effective_audio_tokens
    return Prefill(positions=positions, host_bytes=1_000, payload=batch.estimated_frames)


class Gate:
    """A producer that waits to be let through."""

    def __init__(self):
        self.entered, self.open = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, request, batch):
        self.entered.release()
        assert self.open.acquire(timeout=SOON)
        return produce(request, batch)


def counted(metrics):
    lines = metrics.render().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {
        name.removeprefix("mlxcel_audio_").removeprefix("preprocess_"): value
        for name, value in found.items()
        if value not in ("0", "0.000000")
    }


@pytest.fixture
def metrics():
    return AudioMetrics()


@pytest.fixture
def stages(gemma, metrics):
    """Opens stages and closes them after the test."""
    opened = []

    def build(producer=produce, policy=gemma, **limits):
        limits = StageLimits(**{"max_prefill": 4_096, **limits})
        stage = HostStage(policy, producer, limits, metrics)
        opened.append(stage)
        return stage

    yield build
    for stage in opened:
        stage.close()
        assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (0, 0)


@pytest.fixture
def request_of(clips, silence):
    def build(*files, **options):
        return Request(clips=clips(*files or (silence(800, rate=8_000),)), **options)

    return build


def rejected(stage, request) -> tuple[str, str]:
    with pytest.raises(Rejected) as caught:
        stage.try_submit(request)
    return caught.value.reason, str(caught.value)


def test_5_2_defaults():
    limits = StageLimits(max_prefill=1)
    assert (limits.queue_depth, limits.result_depth) == (8, 2)
    assert limits.max_queued_encoded_bytes == 536_870_912
    assert limits.max_inflight_host_bytes == 1_342_177_280


def test_5_2_a_request_goes_through(stages, metrics, request_of):
    stage = stages()
    number = stage.try_submit(request_of(token_ids=(1, 2, 3)))
    with stage.take(SOON) as outcome:
        assert isinstance(outcome, Prepared)
        assert outcome.number == number
        assert outcome.prefill.positions == 191
        assert outcome.batch.total_source_samples == 800
    found = counted(metrics)
    assert float(found.pop("latency_seconds_total")) > 0
    assert found == {
        "source_seconds_total": "0.100000",
        "source_samples_total": "800",
        "normalized_samples_total": "1600",
        "feature_frames_total": "8",
        "effective_tokens_total": "188",
        "effective_prefill_tokens_total": "191",
    }


def test_5_2_bytes_stay_reserved_until_the_result_is_closed(stages, metrics, request_of, gemma):
    stage = stages()
    request = request_of(token_ids=(1, 2))
    encoded = len(request.clips[0].data)
    host = 512 + 2 * 4 + 64 + encoded + gemma.max_waveform_working_bytes_per_request
    host += gemma.max_prepared_result_bytes_per_request
    stage.try_submit(request)
    outcome = stage.take(SOON)
    for _ in range(2):
        assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (encoded, host)
        assert counted(metrics)["queued_bytes"] == str(encoded)
        assert counted(metrics)["inflight_host_bytes"] == str(host)
    outcome.close()
    outcome.close()  # once is all that counts
    assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (0, 0)
    assert "queued_bytes" not in counted(metrics)


def test_5_2_results_come_in_the_order_of_admission(stages, request_of):
    stage = stages()
    numbers = [stage.try_submit(request_of()) for _ in range(5)]
    taken = []
    for _ in numbers:
        with stage.take(SOON) as outcome:
            taken.append(outcome.number)
    assert taken == numbers == sorted(numbers)


def test_5_2_cancelled_before_admission(stages, metrics, request_of):
    flag = CancelFlag()
    flag.cancel()
    with pytest.raises(NotAdmitted) as caught:
        stages().try_submit(request_of(b"", cancelled=flag))
    text = "audio preprocessing was cancelled before queue admission"
    assert str(caught.value) == text
    assert counted(metrics) == {"cancelled_total": "1"}


def test_5_2_more_than_the_policy_takes(stages, metrics, request_of, narrowed):
    stage = stages(policy=narrowed(max_encoded_bytes_per_request=99))
    assert rejected(stage, request_of(bytes(60), bytes(40))) == (
        "memory_limit",
        "audio queued-memory limit exceeded: request 100 bytes, queued 0, maximum 99",
    )
    assert counted(metrics) == {'rejections_total{reason="memory_limit"}': "1"}


def test_5_2_sizes_that_overflow(stages, metrics, request_of, narrowed):
    policy = narrowed(max_waveform_working_bytes_per_request=(1 << 64) - 1)
    assert rejected(stages(policy=policy), request_of()) == (
        "overflow",
        "audio queued-memory size calculation overflowed",
    )
    assert counted(metrics) == {'rejections_total{reason="overflow"}': "1"}


def test_5_2_queued_bytes_are_bounded_inclusively(stages, metrics, request_of):
    gate, request = Gate(), request_of()
    size = len(request.clips[0].data)
    stage = stages(gate, max_queued_encoded_bytes=2 * size)
    stage.try_submit(request)
    stage.try_submit(request)
    assert rejected(stage, request) == (
        "memory_limit",
        (
            f"audio queued-memory limit exceeded: request {size} bytes, queued {2 * size}, "
            f"maximum {2 * size}"
        ),
    )
    gate.open.release(2)
    assert counted(metrics)['rejections_total{reason="memory_limit"}'] == "1"


def test_5_2_host_bytes_are_bounded_inclusively_and_roll_back(stages, request_of, gemma):
    gate, request = Gate(), request_of()
    size = len(request.clips[0].data)
    host = 512 + 64 + size + gemma.max_waveform_working_bytes_per_request
    host += gemma.max_prepared_result_bytes_per_request
    stage = stages(gate, max_inflight_host_bytes=2 * host)
    stage.try_submit(request)
    stage.try_submit(request)
    assert rejected(stage, request) == (
        "memory_limit",
        (
            f"audio in-flight host-memory limit exceeded: request reservation {host} bytes, "
            f"in flight {2 * host}, maximum {2 * host}"
        ),
    )
    assert stage.ledger.encoded_bytes == 2 * size
    gate.open.release(2)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_5_2_a_full_queue(stages, metrics, request_of, depth):
    gate = Gate()
    stage = stages(gate, queue_depth=depth)
    stage.try_submit(request_of())
    assert gate.entered.acquire(timeout=SOON)  # the worker has the first in hand
    for _ in range(max(1, depth)):
        stage.try_submit(request_of())
    before = stage.ledger.encoded_bytes
    text = "audio preprocessing queue is full"
    assert rejected(stage, request_of()) == ("queue_full", text)
    assert stage.ledger.encoded_bytes == before
    assert counted(metrics)['rejections_total{reason="queue_full"}'] == "1"
    gate.open.release(9)


def test_5_2_no_worker(stages, metrics, request_of):
    stage = stages()
    stage.close()
    text = "audio preprocessing worker is unavailable"
    assert rejected(stage, request_of()) == ("worker_unavailable", text)
    assert counted(metrics) == {'rejections_total{reason="worker_unavailable"}': "1"}
    with pytest.raises(Closed):
        stage.take(SOON)


def outcome_error(stage, request) -> ModelError:
    stage.try_submit(request)
    outcome = stage.take(SOON)
    assert not isinstance(outcome, Prepared)
    assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (0, 0)
    outcome.close()
    return outcome.error


def only_rejection(metrics) -> str:
    (found,) = [name for name in counted(metrics) if name.startswith("rejections")]
    assert counted(metrics)[found] == "1"
    assert "cancelled_total" not in counted(metrics)
    return found.split('"')[1]


def test_5_2_bad_waveforms(stages, metrics, request_of):
    error = outcome_error(stages(), request_of(b"junk"))
    assert str(error) == "audio clip 0 is corrupt: missing RIFF/WAVE header"
    assert only_rejection(metrics) == "waveform"
    assert "latency_seconds_total" in counted(metrics)
    assert "source_samples_total" not in counted(metrics)


def test_5_2_failing_features(stages, metrics, request_of):
    def failing(_request, _batch):
        raise FeatureError("audio clip 1: too short")

    error = outcome_error(stages(failing), request_of())
    text = "audio feature preprocessing failed for gemma3n: audio clip 1: too short"
    assert str(error) == text
    assert only_rejection(metrics) == "feature"
    assert counted(metrics)["source_samples_total"] == "800"


@pytest.mark.parametrize("fault", [RuntimeError("boom"), MemoryError(), ZeroDivisionError()])
def test_5_2_a_panic_rejects_one_request_and_the_worker_lives(stages, metrics, request_of, fault):
    def panicking(request, batch):
        if request.token_ids:
            return produce(request, batch)
        raise fault

    stage = stages(panicking)
    error = outcome_error(stage, request_of())
    assert str(error) == "audio feature preprocessing panicked for gemma3n"
    assert only_rejection(metrics) == "feature_panic"
    stage.try_submit(request_of(token_ids=(1,)))
    with stage.take(SOON) as outcome:
        assert isinstance(outcome, Prepared)


# A worker thread that dies, as it is meant to here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_5_2_a_worker_that_dies_gives_everything_back_and_takes_nothing_more(stages, request_of):
    entered, die = threading.Event(), threading.Event()

    def dying(_request, _batch):
        entered.set()
        die.wait(SOON)
        raise SystemExit

    stage = stages(dying)
    for _ in range(3):
        stage.try_submit(request_of())
    assert entered.wait(SOON)
    die.set()
    with pytest.raises(Closed):
        stage.take(SOON)
    assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (0, 0)
    assert rejected(stage, request_of())[0] == "worker_unavailable"


def test_5_2_context_limit(stages, metrics, request_of):
    stage = stages(max_prefill=188)
    stage.try_submit(request_of())
    stage.take(SOON).close()
    error = outcome_error(stage, request_of(token_ids=(1,)))
    text = "audio prepared-prefill context limit exceeded for gemma3n: actual 189, maximum 188"
    assert str(error) == text
    assert only_rejection(metrics) == "context_limit"
    assert counted(metrics)["effective_prefill_tokens_total"] == "188"


def test_5_2_result_bytes(stages, metrics, request_of, narrowed):
    stage = stages(policy=narrowed(max_prepared_result_bytes_per_request=999))
    error = outcome_error(stage, request_of())
    assert str(error) == (
        "audio prepared-prefill host-memory limit exceeded for gemma3n: "
        "actual 1000 bytes, maximum 999 bytes"
    )
    assert only_rejection(metrics) == "memory_limit"


def test_5_2_the_context_is_looked_at_before_the_bytes(stages, metrics, request_of, narrowed):
    policy = narrowed(max_prepared_result_bytes_per_request=999)
    error = outcome_error(stages(policy=policy, max_prefill=187), request_of())
    assert "context limit exceeded" in str(error)
    assert only_rejection(metrics) == "context_limit"


@pytest.mark.parametrize("left", [1, 2, 3, 4, 5])
def test_5_2_cancellations_are_no_rejections(stages, metrics, request_of, countdown, left):
    # Asked at admission, at the queue, by the boundary (6 times here), and around the features.
    error = outcome_error(stages(), request_of(cancelled=countdown(left)))
    assert str(error).startswith("audio preprocessing cancelled during ")
    found = counted(metrics)
    assert found.pop("cancelled_total") == "1"
    assert set(found) == {"latency_seconds_total"}


def test_5_2_a_queued_request_that_is_cancelled(stages, request_of):
    gate, flag = Gate(), CancelFlag()
    stage = stages(gate)
    stage.try_submit(request_of())
    assert gate.entered.acquire(timeout=SOON)
    stage.try_submit(request_of(cancelled=flag))
    flag.cancel()
    gate.open.release()
    stage.take(SOON).close()
    outcome = stage.take(SOON)
    text = "audio preprocessing cancelled during Queue for clip None"
    assert str(outcome.error) == text


@pytest.mark.parametrize("after", [False, True])
def test_5_2_cancelled_around_the_features(stages, metrics, request_of, after):
    flag = CancelFlag()

    def cancelling(request, batch):
        flag.cancel()
        if not after:
            poll_at(request.cancelled, Checkpoint.FEATURE, None)()
        return produce(request, batch)

    error = outcome_error(stages(cancelling), request_of(cancelled=flag))
    assert str(error) == "audio preprocessing cancelled during Feature for clip None"
    assert counted(metrics)["cancelled_total"] == "1"
    assert counted(metrics)["source_samples_total"] == "800"


def test_5_2_features_that_stop_by_themselves(stages, metrics, request_of):
    def stopping(_request, _batch):
        raise FeatureCancelled("Gemma3n audio feature extraction was cancelled")

    error = outcome_error(stages(stopping), request_of())
    assert str(error) == "Gemma3n audio feature extraction was cancelled"
    assert counted(metrics)["cancelled_total"] == "1"


def test_5_2_a_stalled_consumer_stops_the_producer(stages, request_of):
    made = threading.Semaphore(0)

    def producer(request, batch):
        made.release()
        return produce(request, batch)

    stage = stages(producer, result_depth=2)
    for _ in range(6):
        stage.try_submit(request_of())
    for _ in range(3):  # two results in the channel, one in the worker's hand
        assert made.acquire(timeout=SOON)
    assert not made.acquire(blocking=False)
    stage.take(SOON).close()
    assert made.acquire(timeout=SOON)


def test_5_2_shutting_down_gives_everything_back(stages, request_of):
    gate = Gate()
    stage = stages(gate, result_depth=1)
    for _ in range(5):
        stage.try_submit(request_of())
    gate.open.release(2)
    for _ in range(2):  # one result in the channel, one in the worker's hand, three queued
        assert gate.entered.acquire(timeout=SOON)
    stage.close()
    assert (stage.ledger.encoded_bytes, stage.ledger.host_bytes) == (0, 0)


def test_5_2_a_result_taken_before_shutdown_stays_its_takers(stages, request_of):
    stage = stages()
    stage.try_submit(request_of())
    with stage.take(SOON):
        stage.close()
        assert stage.ledger.encoded_bytes > 0
    assert stage.ledger.encoded_bytes == 0


def test_5_2_a_guard_gives_back_once_from_any_thread():
    metrics = AudioMetrics()
    ledger = Ledger(max_encoded_bytes=10, max_host_bytes=10, metrics=metrics)
    guard = ledger.reserve(encoded_bytes=4, host_bytes=6)
    threads = [threading.Thread(target=guard.release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.encoded_bytes, ledger.host_bytes) == (0, 0)


def fail(ledger):
    with pytest.raises(MemoryRefused):
        ledger.reserve(encoded_bytes=1, host_bytes=0)
    raise RuntimeError


def test_5_2_a_guard_gives_back_when_its_block_raises():
    ledger = Ledger(max_encoded_bytes=10, max_host_bytes=10, metrics=AudioMetrics())
    with pytest.raises(RuntimeError), ledger.reserve(encoded_bytes=10, host_bytes=10):
        fail(ledger)
    assert (ledger.encoded_bytes, ledger.host_bytes) == (0, 0)


def test_5_2_channels():
    channel = Channel[int](0)
    channel.put_nowait(1)
    with pytest.raises(Full):
        channel.put_nowait(2)
    assert channel.get() == 1
    with pytest.raises(TimeoutError):
        channel.get(0)
    channel.put(3)
    assert channel.close() == [3]
    assert channel.close() == []
    for use in (lambda: channel.put(1), lambda: channel.put_nowait(1), channel.get):
        with pytest.raises(Closed):
            use()


def test_5_2_another_familys_name_is_in_the_texts(stages, request_of, phi):
    policy = replace(phi, max_prepared_result_bytes_per_request=1)
    error = outcome_error(stages(policy=policy), request_of())
    assert "limit exceeded for phi4mm: actual 1000 bytes" in str(error)
