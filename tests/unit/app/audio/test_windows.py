from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.audio import decode
from app.audio.windows import join, plan, stitch
from models.pauses import quiet_cut
from models.transcript import Segment, WindowTranscript

RATE = 16_000
quick = settings(deadline=None, derandomize=True, max_examples=60)


def noise(seconds: float, level=0.1, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, level, round(seconds * RATE)).astype(np.float32)


def with_pauses(seconds: float, *pauses: tuple[float, float], floor=0.0) -> np.ndarray:
    samples = noise(seconds)
    for start, end in pauses:
        piece = slice(round(start * RATE), round(end * RATE))
        samples[piece] = noise(seconds, level=1.0, seed=1)[piece] * floor
    return samples


def cut_seconds(samples: np.ndarray) -> float:
    return quiet_cut(samples, rate=RATE) / RATE


@quick
@given(
    sizes=st.lists(st.integers(0, 900), max_size=12),
    seed=st.integers(0, 5),
    gate=st.integers(1, 400),
)
def test_windows_together_are_the_input(sizes, seed, gate):
    rng = np.random.default_rng(seed)
    total = rng.normal(0, 0.1, sum(sizes)).astype(np.float32)
    total[(np.arange(len(total)) // gate) % 3 == 0] = 0
    blocks = np.split(total, np.cumsum(sizes)[:-1]) if sizes else []
    windows = list(plan(blocks, rate=100, max_seconds=3))
    joined = np.concatenate([np.zeros(0, np.float32), *(w.samples for w in windows)])
    np.testing.assert_array_equal(joined, total)
    assert [w.number for w in windows] == list(range(len(windows)))
    assert all(0 < len(w.samples) <= 300 for w in windows)
    position = 0
    for window in windows:
        assert (window.start, window.end) == (position, position + len(window.samples))
        position = window.end


@pytest.mark.parametrize("block", [1000, 16_000, 65_536, 2_000_000])
def test_the_cuts_do_not_depend_on_the_blocks(block):
    samples = with_pauses(100, (25, 25.5), (40, 40.4), (52, 52.2), (77, 79))
    blocks = np.split(samples, range(block, len(samples), block))
    assert [w.start for w in plan(blocks)] == [w.start for w in plan([samples])]


def test_exactly_one_window_is_not_cut():
    assert [len(w.samples) for w in plan([with_pauses(30, (20, 21))])] == [480_000]


def test_no_samples_give_no_window():
    assert list(plan([])) == []
    assert list(plan([np.zeros(0, np.float32)])) == []


def test_the_cut_falls_in_the_pause_nearest_to_the_end():
    assert 26 < cut_seconds(with_pauses(30, (22, 22.6), (26, 26.6))) < 26.6


def test_a_long_pause_is_preferred_to_a_shorter_one_nearer_to_the_end():
    assert 24 < cut_seconds(with_pauses(30, (24, 24.6), (28, 28.14))) < 24.6


def test_a_shorter_pause_is_taken_where_it_saves_seconds():
    """Each window costs a model the same, however much of it is speech."""
    assert 28 < cut_seconds(with_pauses(30, (21, 21.6), (28, 28.14))) < 28.14
    assert 21 < cut_seconds(with_pauses(30, (21, 21.14), (29, 29.06))) < 21.14


def test_a_short_pause_is_better_than_none():
    assert 28 < cut_seconds(with_pauses(30, (28, 28.14))) < 28.14
    assert 27 < cut_seconds(with_pauses(30, (27, 27.06), (5, 12))) < 27.06


def test_a_pause_with_room_noise_is_found():
    assert 25 < cut_seconds(with_pauses(30, (7, 9), (25, 25.6), floor=0.01)) < 25.6


def test_a_pause_too_far_from_the_end_is_left_alone():
    assert cut_seconds(with_pauses(30, (3, 5))) == 30


@pytest.mark.parametrize(
    "samples",
    [
        noise(30),
        np.sin(np.arange(480_000) / 5).astype(np.float32),
        np.zeros(480_000, np.float32),
        noise(30, level=1e-6),
    ],
    ids=["noise", "tone", "silence", "faint noise"],
)
def test_a_steady_sound_is_cut_at_the_very_end(samples):
    assert quiet_cut(samples, rate=RATE) == 480_000


def test_speech_before_long_silence_keeps_nearly_full_windows():
    samples = np.concatenate([noise(10), np.zeros(300 * RATE, np.float32)])
    assert len(list(plan([samples]))) == 11


def test_speech_after_long_silence_has_a_lead_in():
    samples = np.concatenate([noise(20), np.zeros(9 * RATE, np.float32), noise(20)])
    second = list(plan([samples]))[1]
    assert 28.5 < second.start / RATE < 29


@pytest.mark.parametrize("rate", [100, 8000, 24_000])
def test_other_rates_and_lengths(rate):
    samples = noise(40)[: 5 * rate]
    windows = list(plan([samples], rate=rate, max_seconds=2))
    assert max(len(w.samples) for w in windows) <= 2 * rate
    assert sum(len(w.samples) for w in windows) == len(samples)


def test_memory_does_not_grow_with_the_recording():
    def peak(seconds: int) -> int:
        blocks = (noise(1, seed=second) for second in range(seconds))
        tracemalloc.start()
        for window in plan(blocks):
            assert len(window.samples) <= 480_000
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traced

    assert peak(600) < 1.1 * peak(120)


def test_real_speech_is_cut_between_words(speech_dir):
    with (speech_dir / "jfk.wav").open("rb") as file:
        samples = decode.read(file)
    loud = np.abs(samples).max()
    for window in list(plan([samples], max_seconds=5))[1:]:
        around = samples[window.start - 160 : window.start + 160]
        assert np.abs(around).max() < 0.1 * loud


def heard(text: str, *segments: tuple[float, float], language="en") -> WindowTranscript:
    return WindowTranscript(
        text=text,
        language=language,
        segments=tuple(Segment(start=a, end=b, text=f" {i}") for i, (a, b) in enumerate(segments)),
    )


def text_of(*texts: str, language="en") -> str:
    parts = [(10.0 * i, heard(text, language=language)) for i, text in enumerate(texts)]
    return stitch(parts, 100.0).text


def test_windows_are_joined_with_exactly_one_space():
    assert (
        text_of(" Ask not", " what your country", " can do.") == "Ask not what your country can do."
    )
    assert text_of("Ask not ", "what") == "Ask not what"
    assert text_of(" a ", "  b") == "a b"


def test_empty_windows_leave_no_trace():
    assert text_of("", " one", "  ", "", " two", "") == "one two"
    assert text_of("", " ") == ""


@pytest.mark.parametrize("language", ["zh", "ja", "th", "yue"])
def test_languages_without_spaces_get_none(language):
    assert text_of("砸自己", "的脚", language=language) == "砸自己的脚"
    assert text_of("用", " Python 写", language=language) == "用 Python 写"


def test_no_windows_are_an_empty_transcript():
    out = stitch([], 0.0)
    assert (out.text, out.language, out.duration, out.segments) == ("", "", 0.0, ())


def test_the_language_is_that_of_the_first_window_with_words():
    parts = [(0.0, heard("", language="en")), (30.0, heard("oui", language="fr"))]
    assert stitch(parts, 60.0).language == "fr"
    assert stitch(parts[:1], 30.0).language == "en"


def test_task_and_model_are_kept():
    out = stitch([(0.0, heard(" hi"))], 1.0, task="translate", model="tiny")
    assert (out.task, out.model) == ("translate", "tiny")


def times(parts, duration):
    return [(s.start, s.end) for s in stitch(parts, duration).segments]


def test_segments_are_shifted_by_the_start_of_their_window():
    parts = [(0.0, heard(" a b", (0.0, 2.0), (2.0, 4.0))), (28.5, heard(" c", (1.0, 3.0)))]
    assert times(parts, 60.0) == [(0, 2), (2, 4), (29.5, 31.5)]


def test_segment_times_end_with_their_window_and_with_the_recording():
    parts = [(0.0, heard(" a", (0.0, 30.0))), (25.0, heard(" b", (0.0, 30.0)))]
    assert times(parts, 40.0) == [(0, 25), (25, 40)]


def test_a_window_without_segments_is_one_segment():
    parts = [(0.0, heard(" a")), (25.0, heard("")), (30.0, heard(" b"))]
    assert times(parts, 41.0) == [(0, 25), (30, 41)]


@quick
@given(
    st.lists(st.lists(st.tuples(st.floats(-5, 40), st.floats(-5, 40)), max_size=4), max_size=5),
    st.floats(0, 120),
)
def test_times_never_run_backwards_or_out_of_the_recording(windows, duration):
    parts = [(25.0 * i, heard(" x", *segments)) for i, segments in enumerate(windows)]
    flat = [value for pair in times(parts, duration) for value in pair]
    assert flat == sorted(flat)
    assert all(0 <= value <= duration for value in flat)


def test_the_text_of_more_windows_starts_with_that_of_fewer() -> None:
    texts = [" One. ", "", "  two", "三", " 四 ", "   ", "five"]
    languages = ["en", "en", "en", "zh", "zh", "en", "en"]
    windows = [
        WindowTranscript(text=text, language=language)
        for text, language in zip(texts, languages, strict=True)
    ]
    joined = [join(windows[:count]) for count in range(len(windows) + 1)]
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(joined))
    assert joined[-1] == "One. two三 四 five"
