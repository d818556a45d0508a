"""Mutated files through the header readers and the decoder: only BadAudio comes out."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.audio import decode
from app.audio.limits import Limits, inspect
from app.errors import BadAudio

fuzz = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

CASES = ["PCM_16", "FLOAT", "ALAW", "MS_ADPCM", "WAVEX", "RF64", "FLAC", "MP3", "tagged MP3"]


@pytest.fixture(scope="session")
def originals(encoded: Callable[..., bytes], tone: Callable[..., np.ndarray]) -> dict[str, bytes]:
    samples = tone(0.3, channels=2) + np.random.default_rng(3).normal(0, 0.01, (4800, 2))
    wav = {subtype: encoded(samples, subtype=subtype) for subtype in CASES[:4]}
    files = wav | {format_: encoded(samples, format_) for format_ in CASES[4:8]}
    return files | {"tagged MP3": files["MP3"] + b"APETAGEX" + bytes(24)}


def survive(data: bytes) -> None:
    file = io.BytesIO(data)
    with suppress(BadAudio):
        inspect(file, Limits())
    with suppress(BadAudio):
        out = decode.read(file, max_seconds=2)
        assert len(out) <= 2 * decode.RATE + 1
        assert np.isfinite(out).all()
        assert np.abs(out).max(initial=0) <= 1
    with suppress(BadAudio):
        assert len(decode.read(file, max_seconds=2, start_seconds=1.4, stop_seconds=1.5)) <= 1600


edits = st.lists(
    st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6
)
header_edits = st.lists(
    st.tuples(
        st.integers(0, 90),
        st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from([b"\xff" * 4, b"\0" * 4])),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    mutable = bytearray(data)
    for place, piece in changes:
        at = place % len(mutable)
        mutable[at : at + len(piece)] = piece[: len(mutable) - at]
    return bytes(mutable)


@pytest.mark.parametrize("case", CASES)
@fuzz
@given(changes=header_edits)
def test_edited_headers(originals, case, changes):
    survive(edited(originals[case], changes))


@pytest.mark.parametrize("case", CASES)
@fuzz
@given(changes=edits)
def test_edited_bodies(originals, case, changes):
    survive(edited(originals[case], changes))


@pytest.mark.parametrize("case", CASES)
@fuzz
@given(keep=st.integers(0, 2000), drop=st.integers(0, 500), tail=st.binary(max_size=200))
def test_cut_and_spliced(originals, case, keep, drop, tail):
    data = originals[case]
    survive(data[:keep] + tail + data[keep + drop :])
    survive(data[:keep] + tail)


@fuzz
@given(
    magic=st.sampled_from([b"RIFF\0\0\0\0WAVE", b"RF64\0\0\0\0WAVE", b"fLaC", b"ID3", b"\xff\xfb"]),
    rest=st.binary(max_size=600),
)
def test_rubbish_after_good_magic(magic, rest):
    survive(magic + rest)


@pytest.mark.parametrize("name", ["jfk.flac", "jfk.mp3", "librivox_0880.wav", "chinese.flac"])
@settings(fuzz, max_examples=25)
@given(changes=st.one_of(edits, header_edits), cut=st.integers(1, 40_000))
def test_edited_real_files(speech_dir, name, changes, cut):
    survive(edited((speech_dir / name).read_bytes()[:cut], changes))
