"""Section 5.2: whatever happens in whatever order, reserved bytes return to zero."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from models.preprocess.cancellation import CancelFlag
from models.preprocess.channel import Closed
from models.preprocess.features.errors import FeatureError
from models.preprocess.metrics import AudioMetrics
from models.preprocess.stage import (
    HostStage,
    NotAdmitted,
    Prefill,
    Rejected,
    Request,
    StageLimits,
)

RUNS = 500


class Play:
    """One random run against a live worker thread: submit, cancel, crash, stall, take, stop."""

    def __init__(self, seed, policy, files):
        self.random = random.Random(seed)
        self.files = files
        self.metrics = AudioMetrics()
        self.flags: list[CancelFlag] = []
        self.held = []
        self.admitted = self.refused = self.taken = 0
        limits = StageLimits(
            queue_depth=self.random.randint(0, 4),
            result_depth=self.random.randint(0, 2),
            max_queued_encoded_bytes=self.random.choice([400, 1_000, 1 << 30]),
            max_inflight_host_bytes=self.random.choice([250 << 20, 1280 << 20]),
            max_prefill=self.random.choice([1, 300]),
        )
        self.stage = HostStage(policy, self.produce, limits, self.metrics)

    def produce(self, request, batch):
        """What the token says: fail, panic, be cancelled inside, be too large, die, or work."""
        (kind,) = request.token_ids
        if kind == 1:
            raise FeatureError("failed")
        if kind == 2:
            raise KeyError("panic")
        if kind == 3 and isinstance(request.cancelled, CancelFlag):
            request.cancelled.cancel()
        if kind == 5:
            raise SystemExit  # ends the worker's thread
        return Prefill(
            positions=batch.effective_audio_tokens,
            host_bytes=1 << 40 if kind == 4 else 10,
            payload=None,
        )

    def submit(self):
        flag = CancelFlag()
        self.flags.append(flag)
        if self.random.random() < 0.1:
            flag.cancel()
        data = self.random.choice(self.files)
        kind = self.random.choices(range(7), weights=[9, 9, 9, 9, 9, 3, 9])
        request = Request(clips=data, token_ids=tuple(kind), cancelled=flag)
        try:
            self.stage.try_submit(request)
        except (Rejected, NotAdmitted):
            self.refused += 1
        else:
            self.admitted += 1

    def cancel(self):
        if self.flags:
            self.random.choice(self.flags).cancel()

    def take(self):
        try:
            outcome = self.stage.take(0)
        except (TimeoutError, Closed):
            return
        self.taken += 1
        self.held.append(outcome)

    def consume(self):
        if self.held:
            self.held.pop(self.random.randrange(len(self.held))).close()

    def consume_twice(self):
        if self.held:
            outcome = self.random.choice(self.held)
            outcome.close()
            outcome.close()

    def run(self):
        actions = [self.submit] * 4 + [self.cancel, self.take, self.take]
        actions += [self.consume, self.consume_twice]
        for _ in range(self.random.randint(5, 25)):
            self.random.choice(actions)()
        if self.random.random() < 0.5:  # a consumer that goes on to the end, else one that stalls
            with suppress(Closed):  # by a worker that died
                while self.taken < self.admitted:
                    self.held.append(self.stage.take(20))
                    self.taken += 1
                    self.consume()
        self.stage.close()
        for outcome in self.held:
            outcome.close()


@pytest.fixture(scope="module")
def files(clips, silence):
    good, other = silence(160), silence(320, rate=8_000, channels=2)
    return [clips(good), clips(other, good), clips(b"junk"), clips(b""), ()]


# A worker thread that dies, as it is meant to here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("block", range(10))
def test_5_2_reserved_bytes_return_to_zero(gemma, files, block):
    for seed in range(block * RUNS // 10, (block + 1) * RUNS // 10):
        play = Play(seed, gemma, files)
        play.run()
        reserved = play.stage.ledger.encoded_bytes, play.stage.ledger.host_bytes
        assert reserved == (0, 0), f"seed {seed}"
        text = play.metrics.render()
        assert "mlxcel_audio_preprocess_queued_bytes 0\n" in text
        assert "mlxcel_audio_preprocess_inflight_host_bytes 0\n" in text
