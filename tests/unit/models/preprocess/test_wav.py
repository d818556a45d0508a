"""Section 3: the strict RIFF/WAVE decoder."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from models.preprocess.batch import prepare
from models.preprocess.cancellation import no_poll
from models.preprocess.decode import decode, open_clip
from models.preprocess.errors import WaveformError
from models.preprocess.policy import PINNED, Family
from models.preprocess.wav import float_wav

PHI = PINNED[Family.PHI4MM]


def samples_of(data: bytes, policy=PHI, clip=0):
    opened = open_clip(data, clip=clip, bounds=policy, poll=no_poll)
    return decode(opened, clip=clip, bounds=policy, poll=no_poll)


def refusal(data: bytes, policy=PHI, clip=0) -> str:
    with pytest.raises(WaveformError) as caught:
        samples_of(data, policy, clip)
    return str(caught.value)


def reason(data: bytes, policy=PHI) -> str:
    text = refusal(data, policy)
    assert text.startswith("audio clip 0 is corrupt: ")
    return text.removeprefix("audio clip 0 is corrupt: ")


PCM = np.array([0, 16_384, -32_768, 32_767], np.int16)


def test_3_pcm16_is_divided_by_32768(wav):
    assert samples_of(wav(PCM)).tolist() == [0.0, 0.5, -1.0, np.float32(32_767 / 32_768)]


def test_3_float32_is_taken_as_it_is(wav):
    values = np.array([0.1, -0.2, 1.0], np.float32)
    assert np.array_equal(samples_of(wav(values)), values)


def test_3_channels_are_averaged_then_clamped(wav):
    stereo = np.array([[2, 0], [-2, 0], [0.5, -0.5], [3, 1], [-3, -1]], np.float32)
    assert samples_of(wav(stereo)).tolist() == [1.0, -1.0, 0.0, 1.0, -1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channel", [0, 1])
def test_3_a_non_finite_sample_is_refused_with_its_frame(wav, bad, channel):
    stereo = np.zeros((5_000, 2), np.float32)
    stereo[4_321, channel] = bad
    text = refusal(wav(stereo), clip=3)
    assert text == "audio clip 3 contains a non-finite sample at frame 4321"


def test_3_opposite_infinities_do_not_cancel(wav):
    assert "frame 0" in refusal(wav(np.array([[np.inf, -np.inf]], np.float32)))


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", b"RIFF\0\0\0\0WAV", b"RIFX\0\0\0\0WAVE", b"RF64\0\0\0\0WAVE", b"OggS" * 9],
)
def test_3_missing_header(data):
    assert reason(data) == "missing RIFF/WAVE header"


@pytest.mark.parametrize("size", [0, 7, 0xFFFFFFFF])
def test_3_riff_size_is_ignored(riff, fmt, chunk, size):
    data = riff(fmt(), chunk(b"data", PCM.tobytes()), size=size)
    assert len(samples_of(data)) == 4


@pytest.mark.parametrize("rest", range(1, 8))
def test_3_truncated_chunk_header(riff, fmt, rest):
    assert reason(riff(fmt()) + bytes(rest)) == "truncated WAV chunk header"


def test_3_a_chunk_that_declares_more_than_there_is_is_refused(riff, fmt, chunk):
    text = "declared WAV chunk exceeds payload"
    assert reason(riff(fmt(), chunk(b"data", PCM.tobytes(), size=9))) == text
    assert reason(riff(fmt(), chunk(b"LIST", b"", size=1))) == text


def test_3_an_unsized_data_chunk_runs_to_the_end(riff, fmt, chunk):
    assert len(samples_of(riff(fmt(), chunk(b"data", PCM.tobytes(), size=0xFFFFFFFF)))) == 4


def test_3_only_a_data_chunk_may_be_unsized(riff, fmt, chunk):
    data = riff(chunk(b"LIST", b"", size=0xFFFFFFFF), fmt())
    assert reason(data) == "declared WAV chunk exceeds payload"


def test_3_short_fmt_chunk(riff, chunk):
    data = riff(chunk(b"fmt ", bytes(14)), chunk(b"data", PCM.tobytes()))
    assert reason(data) == "WAV fmt chunk is shorter than 16 bytes"


def test_3_missing_chunks(riff, fmt, chunk):
    assert reason(riff(chunk(b"data", PCM.tobytes()))) == "missing WAV fmt chunk"
    assert reason(riff(fmt())) == "missing WAV data chunk"
    assert reason(riff()) == "missing WAV fmt chunk"


def test_3_data_may_come_before_fmt(riff, fmt, chunk):
    assert len(samples_of(riff(chunk(b"data", PCM.tobytes()), fmt()))) == 4


def test_3_the_last_of_several_wins_where_data_came_first(riff, fmt, chunk):
    data = riff(chunk(b"data", PCM.tobytes()), fmt(rate=8_000), fmt(rate=24_000))
    assert open_clip(data, clip=0, bounds=PHI, poll=no_poll).sample_rate == 24_000


def test_3_the_last_fmt_before_data_wins(riff, fmt, chunk):
    data = riff(fmt(rate=8_000), fmt(rate=24_000), chunk(b"data", PCM.tobytes()), fmt(rate=1))
    assert open_clip(data, clip=0, bounds=PHI, poll=no_poll).sample_rate == 24_000


def test_3_bytes_after_the_data_chunk_are_never_looked_at(riff, fmt, chunk):
    assert len(samples_of(riff(fmt(), chunk(b"data", PCM.tobytes())) + b"junk")) == 4


def test_3_odd_chunks_are_padded(riff, fmt, chunk):
    data = riff(chunk(b"LIST", b"abc"), fmt(), chunk(b"data", PCM.tobytes()))
    assert len(samples_of(data)) == 4


def test_3_a_missing_pad_byte_matters_only_while_something_is_sought(riff, fmt, chunk):
    odd = chunk(b"LIST", b"abc")[:-1]
    assert reason(riff(fmt(), odd)) == "truncated WAV chunk header"
    assert len(samples_of(riff(chunk(b"data", PCM.tobytes()), fmt(), odd))) == 4


def test_3_at_most_256_chunks_are_walked(riff, fmt, chunk):
    def file(count):
        return riff(*[chunk(b"LIST", b"")] * count, fmt(), chunk(b"data", PCM.tobytes()))

    assert len(samples_of(file(254))) == 4
    assert reason(file(255)) == "missing WAV data chunk"
    assert reason(file(256)) == "missing WAV fmt chunk"


@pytest.mark.parametrize("field", [{"channels": 0}, {"rate": 0}])
def test_3_zero_channels_or_rate(riff, fmt, chunk, field):
    data = riff(fmt(**field), chunk(b"data", PCM.tobytes()))
    assert reason(data) == "WAV channel count and sample rate must be non-zero"


def test_3_rates_below_the_family_minimum(wav):
    text = "source sample rate 7999 Hz is below the 8000 Hz family minimum"
    assert reason(wav(PCM, rate=7_999)) == text
    assert len(samples_of(wav(PCM, rate=1), PINNED[Family.GEMMA3N])) == 4


def test_3_rates_above_the_maximum(wav):
    text = "audio source sample rate limit exceeded: actual 192001, maximum 192000"
    assert refusal(wav(PCM, rate=192_001)) == text
    assert len(samples_of(wav(PCM, rate=192_000))) == 4


@pytest.mark.parametrize(
    ("tag", "bits"),
    [(65534, 16), (1, 8), (1, 24), (1, 32), (3, 64), (3, 16), (6, 8), (7, 8), (0, 16), (1, 0)],
)
def test_3_other_formats_are_refused(riff, fmt, chunk, tag, bits):
    data = riff(fmt(tag=tag, bits=bits), chunk(b"data", bytes(48)))
    assert reason(data) == f"unsupported WAV format {tag}/{bits}-bit"


def test_3_no_samples(riff, fmt, chunk):
    assert refusal(riff(fmt(), chunk(b"data", b"")), clip=2) == "audio clip 2 is empty"


def test_3_incomplete_frames(riff, fmt, chunk):
    data = riff(fmt(channels=3), chunk(b"data", bytes(8)))
    assert reason(data) == "WAV data is not aligned to complete sample frames"


def test_3_longer_than_the_family_takes(silence, gemma):
    assert len(samples_of(silence(8_000 * 30, rate=8_000), gemma)) == 240_000
    text = "audio source duration samples limit exceeded: actual 240001, maximum 240000"
    assert refusal(silence(240_001, rate=8_000), gemma) == text


def test_3_block_align_and_byte_rate_are_never_validated(wav):
    data = bytearray(wav(PCM))
    data[28:34] = b"\xff" * 6
    assert len(samples_of(bytes(data))) == 4


def test_3_channels_have_no_bound_but_their_field(silence, gemma):
    assert len(samples_of(silence(3, channels=65_535), gemma)) == 3


def test_3_checks_come_in_the_documented_order(riff, fmt, chunk):
    """Each later fault shows once the earlier ones are mended."""
    data = chunk(b"data", b"")
    assert "missing WAV data" in reason(riff(fmt(channels=0, rate=1, bits=8)))
    assert "non-zero" in reason(riff(fmt(channels=0, rate=1, bits=8), data))
    assert "below" in reason(riff(fmt(rate=1, bits=8), data))
    assert "unsupported" in reason(riff(fmt(bits=8), data))
    assert "empty" in refusal(riff(fmt(), data))


@given(
    values=npst.arrays(
        np.float32,
        st.tuples(st.integers(1, 300), st.integers(1, 9)),
        elements=st.floats(-4, 4, width=32),
    )
)
def test_3_mono_is_the_clamped_double_mean(values):
    data = interleaved(values)
    expected = np.clip(values.astype(np.float64).mean(axis=1), -1, 1).astype(np.float32)
    np.testing.assert_allclose(samples_of(data), expected, rtol=1e-6, atol=1e-12)


@given(values=npst.arrays(np.int16, st.integers(1, 9_000)))
def test_3_pcm16_mono_survives_exactly(values):
    body = values.astype("<i2").tobytes()
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    data = b"RIFF\0\0\0\0WAVE" + head + struct.pack("<4sI", b"data", len(body)) + body
    decoded = samples_of(data)
    assert np.array_equal(decoded * np.float32(32_768), values)
    assert np.abs(decoded).max() <= 1


@given(body=st.binary(max_size=200), sizes=st.lists(st.integers(0, 2**32 - 1), max_size=6))
def test_3_anything_after_a_riff_header_is_samples_or_a_waveform_error(body, sizes):
    names = (b"fmt ", b"data", b"LIST")
    chunks = b"".join(
        struct.pack("<4sI", names[i % 3], size) + body for i, size in enumerate(sizes)
    )
    with suppress(WaveformError):
        decoded = samples_of(b"RIFF\0\0\0\0WAVE" + chunks)
        assert np.isfinite(decoded).all()
        assert np.abs(decoded).max() <= 1


def interleaved(values) -> bytes:
    body = values.astype("<f4").tobytes()
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, values.shape[1], 16_000, 0, 0, 32)
    return b"RIFF\0\0\0\0WAVE" + head + struct.pack("<4sI", b"data", len(body)) + body


def test_3_a_clip_is_what_prepare_makes_of_it(wav, clips, gemma):
    batch = prepare(clips(wav(PCM)), gemma)
    assert np.array_equal(batch.clips[0].samples, samples_of(wav(PCM)))


@given(values=npst.arrays(np.float32, st.integers(1, 300), elements=st.floats(-1, 1, width=32)))
def test_3_samples_written_as_float32_come_back_to_the_bit(values):
    data = float_wav(values, 8_000)
    assert np.array_equal(samples_of(data), values)
    assert soundfile.info(io.BytesIO(data)).subtype == "FLOAT"
