"""Which tokens the rules leave, on a vocabulary small enough to write down."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from models.whisper.rules import Suppress, Timestamps, log_sum_exp

END, NO_TIMES, ZERO, SIZE = 10, 12, 13, 13 + 101
TOKENIZER = SimpleNamespace(
    suppressed=[3, 11], suppressed_first=[4, END], no_timestamps=NO_TIMES, first_timestamp=ZERO, size=SIZE, end=END
)  # fmt: skip


def allowed(rule, *generated: list[int], logits: np.ndarray | None = None) -> list[set[int]]:
    logits = np.zeros((len(generated), SIZE), np.float32) if logits is None else logits
    rule(logits, generated)
    return [set(np.flatnonzero(np.isfinite(row)).tolist()) for row in logits]


def unlikely_times() -> np.ndarray:
    logits = np.zeros((1, SIZE), np.float32)
    logits[:, ZERO:] = -20
    return logits


def test_symbols_controls_and_timestamps_are_suppressed():
    (left,) = allowed(Suppress(TOKENIZER, timestamps=False), [1])
    assert left == {0, 1, 2, 4, 5, 6, 7, 8, 9, END}


def test_a_space_and_the_end_are_suppressed_first():
    (left,) = allowed(Suppress(TOKENIZER, timestamps=False), [])
    assert left == {0, 1, 2, 5, 6, 7, 8, 9}


def test_timestamps_stay_where_they_are_wanted():
    (left,) = allowed(Suppress(TOKENIZER, timestamps=True), [1])
    assert set(range(ZERO, SIZE)) <= left
    assert NO_TIMES not in left


def test_a_window_starts_with_a_timestamp_of_at_most_a_second():
    (left,) = allowed(Timestamps(TOKENIZER), [])
    assert left == set(range(ZERO, ZERO + 51))


def test_after_the_first_timestamp_comes_text():
    (left,) = allowed(Timestamps(TOKENIZER), [ZERO + 5])
    assert left == set(range(ZERO))


def test_after_a_closing_timestamp_comes_another_not_before_it_or_the_end():
    (left,) = allowed(Timestamps(TOKENIZER), [ZERO, 1, ZERO + 60], logits=unlikely_times())
    assert left == {END, 11, NO_TIMES} | set(range(ZERO + 60, SIZE))


def test_within_text_timestamps_only_go_forward():
    tokens = [ZERO, 1, ZERO + 60, ZERO + 60, 2]
    (left,) = allowed(Timestamps(TOKENIZER), tokens, logits=unlikely_times())
    assert left == set(range(ZERO)) | set(range(ZERO + 61, SIZE))


def test_timestamps_win_by_their_sum():
    rows = allowed(Timestamps(TOKENIZER), [ZERO, 1])
    assert rows == [set(range(ZERO + 1, SIZE))]
    likely_text = np.zeros((1, SIZE), np.float32)
    likely_text[0, 2] = 8
    assert 2 in allowed(Timestamps(TOKENIZER), [ZERO, 1], logits=likely_text)[0]


def test_rows_are_judged_by_their_own_tokens():
    logits = np.repeat(unlikely_times(), 2, axis=0)
    first, second = allowed(Timestamps(TOKENIZER), [ZERO, 1], [ZERO, 1, ZERO + 9], logits=logits)
    assert 5 in first
    assert 5 not in second


@pytest.mark.parametrize("values", [[-1000.0, -1000.0], [1000.0, 1000.0], [0.0, -np.inf]])
def test_log_sum_exp_is_stable(values):
    expected = np.logaddexp(*values)
    assert log_sum_exp(np.array(values, np.float32)) == pytest.approx(expected)


def test_log_sum_exp_of_nothing_possible():
    assert log_sum_exp(np.array([-np.inf, -np.inf], np.float32)) == -np.inf
