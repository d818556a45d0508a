from __future__ import annotations

import io
import struct
import tempfile
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.audio import decode
from app.audio.encode import HEADER_BYTES, MAX_DATA_BYTES, WavWriter, pcm16, write_wav

values = st.floats(-1, 1, width=32)
quick = settings(deadline=None, derandomize=True, max_examples=100)


def wav_bytes(samples: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    write_wav(file, [samples], **options)
    return file.getvalue()


def test_the_header_has_44_bytes_and_true_sizes():
    data = wav_bytes(np.zeros(10, np.float32), sample_rate=24_000)
    assert len(data) == 44 + 20
    assert data[:4] + data[8:16] + data[36:40] == b"RIFFWAVEfmt data"
    assert struct.unpack("<I", data[4:8]) == (len(data) - 8,)
    assert struct.unpack("<IHHIIHH", data[16:36]) == (16, 1, 1, 24_000, 48_000, 2, 16)
    assert struct.unpack("<I", data[40:44]) == (20,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0),
        (-0.0, 0),
        (1.0, 32_767),
        (-1.0, -32_768),
        (2.0, 32_767),
        (-2.0, -32_768),
        (0.5 / 32_768, 1),
        (-0.5 / 32_768, -1),
        (1.5 / 32_768, 2),
        (-1.5 / 32_768, -2),
        (0.4999 / 32_768, 0),
        (32_767.4 / 32_768, 32_767),
        (np.nan, 0),
        (np.inf, 32_767),
        (-np.inf, -32_768),
        (3e38, 32_767),
    ],
)
def test_scale_32768_half_away_from_zero_clamped_nan_to_zero(value, expected):
    assert pcm16(np.array([value], np.float32)).tolist() == [expected]


@quick
@given(st.lists(values, max_size=200))
def test_round_trip_within_one_step(samples):
    samples = np.array(samples, np.float32)
    out = decode.read(io.BytesIO(wav_bytes(samples, sample_rate=16_000)))
    assert len(out) == len(samples)
    assert np.abs(out - samples).max(initial=0) <= 1 / 32_768


@quick
@given(st.lists(st.lists(values, min_size=3, max_size=3), max_size=50))
def test_interleaved_and_columns_are_the_same(frames):
    columns = np.array(frames, np.float32).reshape(-1, 3)
    flat = wav_bytes(columns.reshape(-1), sample_rate=8000, channels=3)
    assert flat == wav_bytes(columns, sample_rate=8000, channels=3)
    with wave.open(io.BytesIO(flat)) as file:
        assert (file.getnchannels(), file.getnframes()) == (3, len(frames))
        assert file.readframes(len(frames)) == pcm16(columns).tobytes()


@quick
@given(
    st.lists(st.lists(values, max_size=20), max_size=8),
    st.integers(1, 3),
    st.integers(0, 100),
)
def test_blocks_are_one_recording_cut_at_the_largest_whole_frame(blocks, channels, cap):
    arrays = [np.array(block, np.float32) for block in blocks]
    file = io.BytesIO()
    frames = write_wav(file, arrays, sample_rate=8000, channels=channels, max_data_bytes=cap)
    pcm = pcm16(np.concatenate([np.zeros(0, np.float32), *arrays])).tobytes()
    whole = min(len(pcm), cap) // (2 * channels) * 2 * channels
    assert file.getvalue()[HEADER_BYTES:] == pcm[:whole]
    assert frames == whole // (2 * channels)
    assert struct.unpack("<I", file.getvalue()[4:8]) == (36 + whole,)
    assert struct.unpack("<I", file.getvalue()[40:44]) == (whole,)
    assert file.tell() == len(file.getvalue())


def test_the_cap_is_what_a_riff_header_can_declare():
    assert MAX_DATA_BYTES + 36 == 0xFFFFFFFF


def test_a_file_is_written_from_where_it_stands():
    file = io.BytesIO(b"before" + bytes(500))
    file.seek(6)
    write_wav(file, [np.zeros(3, np.float32)], sample_rate=8000)
    assert file.getvalue()[:6] == b"before"
    assert file.getvalue()[6:] == wav_bytes(np.zeros(3, np.float32), sample_rate=8000)


def test_a_spooled_file_that_rolls_over_to_disk():
    with tempfile.SpooledTemporaryFile(100) as file:
        writer = WavWriter(file, sample_rate=24_000)
        for _ in range(5):
            writer.write(np.full(50, 0.5, np.float32))
        writer.close()
        file.seek(0)
        with wave.open(file, "rb") as read:
            assert read.getnframes() == writer.frames == 250
