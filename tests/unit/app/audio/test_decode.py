from __future__ import annotations

import io
import struct
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from app.audio import decode
from app.errors import BadAudio
from models.containers import mp3

RATE = decode.RATE
PREFIX = "failed to read the uploaded audio: audio clip 0 "


def read(data: bytes, **options) -> np.ndarray:
    return decode.read(io.BytesIO(data), **options)


def reason(data: bytes, **options) -> str:
    with pytest.raises(BadAudio) as caught:
        read(data, **options)
    return caught.value.message


def test_16_khz_mono_comes_out_as_it_is(encoded, tone):
    samples = tone()
    out = read(encoded(samples, subtype="FLOAT"))
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, samples[:, 0])


@pytest.mark.parametrize(
    "subtype",
    [
        "PCM_U8",
        "PCM_16",
        "PCM_24",
        "PCM_32",
        "FLOAT",
        "DOUBLE",
        "ULAW",
        "ALAW",
        "IMA_ADPCM",
        "MS_ADPCM",
        "G721_32",
        "NMS_ADPCM_32",
    ],
)
def test_every_wav_encoding(encoded, tone, subtype):
    data = encoded(tone()[:, 0], subtype=subtype)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    np.testing.assert_array_equal(read(data), expected)
    assert np.sqrt(np.mean(expected**2)) == pytest.approx(0.25 / np.sqrt(2), abs=0.03)


@pytest.mark.parametrize("container", ["WAVEX", "RF64"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_extensible_and_rf64(encoded, tone, container, subtype):
    samples = tone(channels=2)
    out = read(encoded(samples, container, subtype))
    np.testing.assert_allclose(out, samples[:, 0], atol=1e-4)


@pytest.mark.parametrize("rate", [1, 50, 8000, 11_025, 44_100, 48_000, 96_000, 192_000])
def test_any_rate_becomes_16_khz(encoded, tone, rate):
    out = read(encoded(tone(2.0, rate=rate), subtype="FLOAT", rate=rate))
    assert abs(len(out) - 2 * RATE) <= 1
    if rate >= 8000:
        middle = slice(RATE // 2, 3 * RATE // 2)
        np.testing.assert_allclose(out[middle], tone(2.0)[middle, 0], atol=1e-3)


@pytest.mark.parametrize("format_", ["FLAC", "MP3"])
def test_2_6_compressed_length_is_within_2304_frames_of_wav(encoded, tone, format_):
    samples = tone(0.25)
    assert abs(len(read(encoded(samples, format_))) - len(samples)) <= 2304


@pytest.mark.parametrize("format_", ["WAV", "FLAC"])
def test_six_channels_are_averaged(encoded, format_):
    samples = np.zeros((1000, 6), np.float32)
    samples[:, 0] = 0.6
    np.testing.assert_allclose(read(encoded(samples, format_)), 0.1, atol=1e-4)


def test_3_the_mean_is_taken_before_the_clamp(encoded):
    samples = np.array([[2, 0], [-2, 0], [0.5, -0.5], [3, 3]], np.float32)
    np.testing.assert_array_equal(read(encoded(samples, subtype="FLOAT")), [1, -1, 0, 1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("frame", [0, 777, 70_000])
def test_3_a_non_finite_sample_is_refused_with_its_frame(encoded, value, frame):
    samples = np.zeros((80_000, 2), np.float32)
    samples[frame, 1] = value
    text = reason(encoded(samples, subtype="FLOAT"))
    assert text == PREFIX + f"contains a non-finite sample at frame {frame}"


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("riff_size", [0, 36, 0xFFFFFFFF])
def test_a_wav_that_a_streaming_writer_left_open(riff, fmt, chunk, size, riff_size):
    pcm = np.arange(-8000, 8000, dtype="<i2")
    data = riff(fmt(), chunk(b"data", pcm.tobytes(), size), size=riff_size)
    np.testing.assert_array_equal(read(data), pcm.astype(np.float32) / 32768)


def test_a_truncated_wav_gives_what_is_present(encoded, tone):
    samples = tone()
    out = read(encoded(samples)[: 44 + 2001])
    assert len(out) == 1000
    np.testing.assert_allclose(out, samples[:1000, 0], atol=1e-4)


def test_a_junk_chunk_whose_size_lies_about_the_rest_is_refused(riff, fmt, chunk):
    data = riff(fmt(), chunk(b"HURF", b"x" * 40, 962_000_000), chunk(b"data", bytes(100)))
    assert reason(data).endswith("missing data chunk")


def test_chunks_after_the_samples_are_not_samples(riff, fmt, chunk):
    data = riff(fmt(), chunk(b"data", bytes(200)), chunk(b"LIST", b"\xff" * 500))
    assert len(read(data)) == 100


def test_zero_samples_are_an_empty_result(riff, fmt, chunk, encoded):
    assert len(read(riff(fmt(), chunk(b"data", b"")))) == 0


def without_frames(flac: bytes) -> bytes:
    offset, last = 4, False
    while not last:
        last = bool(flac[offset] & 0x80)
        offset += 4 + int.from_bytes(flac[offset + 1 : offset + 4], "big")
    return flac[:offset]


def test_a_flac_without_frames_is_empty_only_if_it_says_so(encoded, tone, flac_total):
    data = without_frames(encoded(tone(), "FLAC"))
    assert len(read(flac_total(data, 0))) == 0
    assert reason(data) == PREFIX + "is corrupt: flac stream ended abnormally: no audio frame"


def test_an_mp3_without_a_frame_that_sounds_is_refused(encoded, tone):
    data = encoded(tone(), "MP3")
    alone = data[: mp3.first_frame(io.BytesIO(data), len(data)).end]  # tells the length, no more
    assert reason(alone) == PREFIX + "is corrupt: mp3 stream ended abnormally: no audio frame"


def test_one_sample(encoded):
    one = np.full((1, 1), 0.5, np.float32)
    for rate in (8000, RATE, 48_000):
        assert len(read(encoded(one, rate=rate), rate=RATE)) <= 3


@pytest.mark.parametrize("tag", [0, 2, 0x31, 0x55, 0x1234, 0xFFFE])
def test_an_encoding_that_cannot_be_read_is_named(riff, fmt, chunk, tag):
    text = reason(riff(fmt(tag=tag), chunk(b"data", bytes(100))))
    assert text.startswith(PREFIX + f"is corrupt: unsupported WAV format {tag}/16-bit")


def test_a_flac_header_before_rubbish_is_refused(encoded, tone):
    noise = np.random.default_rng(0).bytes(5000)
    text = reason(encoded(tone(), "FLAC")[:100] + noise)
    assert text.startswith(PREFIX + "is corrupt: flac stream ended abnormally")


def test_a_cut_flac_is_refused(encoded, tone):
    data = encoded(tone(3.0), "FLAC")
    assert "flac stream ended abnormally" in reason(data[: len(data) // 2])


def test_a_tag_after_the_last_flac_frame_is_harmless(encoded, tone):
    data = encoded(tone(), "FLAC")
    assert len(read(data + b"TAG" + bytes(125))) == RATE


@pytest.mark.parametrize("total", [0, 1, 16_001, 500_000])
def test_a_lying_streaminfo_neither_cuts_nor_stretches(encoded, tone, flac_total, total):
    data = encoded(tone(), "FLAC")
    np.testing.assert_array_equal(read(flac_total(data, total)), read(data))


@pytest.mark.parametrize("frames", [0, 1, 3, 10_000])
def test_a_lying_xing_header_neither_cuts_nor_stretches(encoded, tone, mp3_frames, frames):
    data = encoded(tone(5.0), "MP3")
    assert abs(len(read(mp3_frames(data, frames))) - 5 * RATE) <= 2304


def test_a_variable_rate_mp3_without_a_count_is_read_to_its_end(encoded, tone, untagged):
    quiet_then_loud = tone(10.0)
    quiet_then_loud[: 5 * RATE] = 0
    data = untagged(encoded(quiet_then_loud, "MP3", bitrate_mode="VARIABLE"))
    assert abs(len(read(data)) - 10 * RATE) <= 4 * 1152


def test_a_cut_mp3_gives_what_is_present(encoded, tone):
    data = encoded(tone(10.0), "MP3")
    out = read(data[: len(data) * 2 // 5])
    assert 3 * RATE < len(out) < 5 * RATE


def test_junk_in_an_mp3_is_passed_over(encoded, tone):
    data = encoded(tone(4.0), "MP3")
    junk = np.random.default_rng(1).bytes(20_000)
    out = read(data + junk + data)
    assert abs(len(out) - 8 * RATE) <= 8000


def test_an_mp3_lost_in_junk_is_refused_rather_than_cut(encoded, tone):
    data = encoded(tone(4.0), "MP3") + bytes(600_000)
    assert "mp3 stream ended abnormally: no audio frame after byte" in reason(data)


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("id3v1", [False, True])
def test_tags_after_an_mp3_are_no_audio(encoded, tone, header, id3v1):
    data = encoded(tone(4.0), "MP3")
    art = np.random.default_rng(2).bytes(600_000)
    flags = 0x80000000 if header else 0
    footer = b"APETAGEX" + struct.pack("<IIIIQ", 2000, len(art) + 32, 1, flags, 0)
    tags = footer * header + art + footer + (b"TAG" + bytes(125)) * id3v1
    assert len(read(data + tags)) == pytest.approx(len(read(data)), abs=1152)


@pytest.mark.parametrize("length", [10, 0xFFFFFFFF])
def test_a_tag_after_an_mp3_whose_size_lies_is_ignored(encoded, tone, length):
    footer = b"APETAGEX" + struct.pack("<IIIIQ", 2000, length, 1, 0, 0)
    assert len(read(encoded(tone(), "MP3") + footer)) == pytest.approx(RATE, abs=2304)


def test_2_6_an_mp3_that_changes_rate_is_refused(encoded, tone):
    data = encoded(tone(), "MP3") + encoded(tone(1.0, rate=44_100), "MP3", rate=44_100)
    assert reason(data) == PREFIX + (
        "is corrupt: mp3 stream changes sample rate mid-clip (16000 Hz to 44100 Hz)"
    )


def test_an_mp3_after_large_cover_art_is_decoded(encoded, tone):
    tag = b"ID3\x04\0\0" + bytes([0, 24, 0, 0]) + bytes(24 << 14)
    assert abs(len(read(tag + encoded(tone(), "MP3"))) - RATE) <= 2304


@pytest.fixture(scope="module", params=["wav", "flac", "flac 0", "flac short"])
def flac_of(request, encoded, tone, flac_total):
    """A recording of so many seconds whose header says so, says nothing, or lies."""
    total = {"flac 0": 0, "flac short": 100}.get(request.param)

    def build(seconds: float) -> bytes:
        data = encoded(tone(seconds), "WAV" if request.param == "wav" else "FLAC")
        return data if total is None else flac_total(data, total)

    return build


@pytest.fixture(scope="module", params=["mp3", "mp3 short", "mp3 bare"])
def mp3_of(request, encoded, tone, mp3_frames, untagged):
    def build(seconds: float) -> bytes:
        data = encoded(tone(seconds), "MP3")
        if request.param == "mp3 short":
            return mp3_frames(data, 1)
        return untagged(data) if request.param == "mp3 bare" else data

    return build


def test_what_a_lossless_file_expands_to_is_bounded(flac_of):
    assert len(read(flac_of(2.0), max_seconds=2)) == 2 * RATE
    assert "seconds long, maximum is 2 seconds" in reason(flac_of(2.01), max_seconds=2)


def test_what_an_mp3_expands_to_is_bounded(mp3_of):
    assert len(read(mp3_of(1.8), max_seconds=2)) == pytest.approx(1.8 * RATE, abs=2304)
    assert "seconds long, maximum is 2 seconds" in reason(mp3_of(2.1), max_seconds=2)


def test_a_decompression_bomb_is_refused_in_bounded_memory(encoded, flac_total):
    data = flac_total(encoded(np.zeros((30 * 48_000, 8), np.float32), "FLAC", rate=48_000), 0)
    assert len(data) < 60_000
    tracemalloc.start()
    text = reason(data, max_seconds=20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == "audio is more than 20.0 seconds long, maximum is 20 seconds"
    assert peak < 20e6


def test_blocks_take_the_same_memory_however_long_the_file(encoded, tone):
    def peak(seconds: float) -> int:
        file = io.BytesIO(encoded(tone(seconds, rate=48_000), rate=48_000))
        tracemalloc.start()
        total = sum(len(block) for block in decode.blocks(file))
        assert total == pytest.approx(seconds * RATE, abs=2)
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return traced

    assert peak(40.0) < 1.1 * peak(10.0)


def test_the_file_may_stand_anywhere(encoded, tone):
    file = io.BytesIO(encoded(tone()))
    file.seek(777)
    assert len(decode.read(file)) == RATE


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "MP3"])
@pytest.mark.parametrize("rate", [16_000, 44_100, 22_050])
def test_stretches_join_into_the_whole(encoded, format_, rate):
    noise = np.random.default_rng(2).normal(0, 0.1, (5 * rate, 2)).astype(np.float32)
    data = encoded(noise, format_, rate=rate)
    whole = read(data)
    edges = [0.0, 0.1, 1.2345, 1.25, 3.000_062_5, 4.9, None]
    parts = [read(data, start_seconds=a, stop_seconds=b) for a, b in pairwise(edges)]
    assert sum(map(len, parts)) == len(whole)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=2e-4)


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "MP3"])
def test_a_stretch_beyond_the_end_is_empty(encoded, tone, format_):
    assert len(read(encoded(tone(), format_), start_seconds=30.0, stop_seconds=60.0)) == 0


def test_a_seek_does_not_read_what_lies_before(encoded, tone):
    class Watched(io.BytesIO):
        taken = 0

        def read(self, count=-1):
            data = super().read(count)
            self.taken += len(data)
            return data

    file = Watched(encoded(tone(120.0)))
    decode.read(file, start_seconds=100.0, stop_seconds=101.0)
    assert file.taken < 10 * RATE * 2


def test_header_of_more_than_4_gib_is_rf64(fmt):
    from app.audio import wav

    layout = wav.Layout(fmt=fmt()[8:], data_start=44, data_bytes=5 << 30)
    header = wav.header(layout)
    assert header[:4] == b"RF64"
    assert struct.unpack("<Q", header[28:36]) == (5 << 30,)


GOOD = [
    "jfk.wav",
    "jfk.flac",
    "jfk.mp3",
    "librivox_0870.wav",
    "librivox_0880.wav",
    "librivox_0890.wav",
    "librivox_0920.wav",
    "librivox_0930.wav",
    "english_44k.wav",
    "chinese.flac",
]


@pytest.mark.parametrize("name", GOOD)
def test_real_speech_decodes(speech_dir, name):
    with (speech_dir / name).open("rb") as file:
        out = decode.read(file)
    assert len(out) > RATE // 2
    assert 0.05 < np.abs(out).max() <= 1


def test_real_speech_is_the_same_from_every_container(speech_dir):
    def load(name: str) -> np.ndarray:
        with (speech_dir / name).open("rb") as file:
            return decode.read(file)

    wav, flac, mp3 = load("jfk.wav"), load("jfk.flac"), load("jfk.mp3")
    assert abs(len(flac) - len(wav)) <= 2
    assert abs(len(mp3) - len(wav)) <= 2304
    for other in (flac, mp3):
        best = max(
            np.corrcoef(wav[2000:100_000], other[2000 + lag : 100_000 + lag])[0, 1]
            for lag in range(-60, 61, 1)
        )
        assert best > 0.98


def test_real_wav_without_samples_is_empty(speech_dir):
    with (speech_dir / "bad_no_samples.wav").open("rb") as file:
        assert len(decode.read(file)) == 0
