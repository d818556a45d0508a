"""Sections 2.1, 2.4 to 2.6: MP3 and FLAC through the same boundary."""

from __future__ import annotations

import io

import numpy as np
import pytest

from models.containers import mp3
from models.preprocess.cancellation import no_poll
from models.preprocess.decode import decode, open_clip
from models.preprocess.errors import WaveformError


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_2_6_compressed_length_is_near_that_of_wav(encoded, tone, prepared, container):
    samples = tone(0.25)
    plain = prepared(encoded(samples)).clips[0]
    packed = prepared(encoded(samples, container)).clips[0]
    assert abs(len(packed.samples) - len(plain.samples)) <= 2_304
    assert packed.source_sample_rate == 16_000
    assert np.isfinite(packed.samples).all()


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_2_6_the_first_48_bytes_are_refused(encoded, tone, refused, container):
    text = refused(encoded(tone(0.25), container)[:48])
    assert text.startswith(f"audio clip 0 is corrupt: {container.lower()} container ")


@pytest.mark.parametrize(("subtype", "bits"), [("PCM_16", 16), ("PCM_24", 24), ("PCM_S8", 8)])
def test_2_6_integers_are_scaled_by_their_own_depth(encoded, prepared, subtype, bits):
    whole = np.array([0, 1, -1, 100, -128, 127], np.int32) << 24
    data = encoded(whole, "FLAC", subtype)
    decoded = prepared(data).clips[0].samples
    assert np.array_equal(decoded, (whole >> (32 - bits)) / 2.0 ** (bits - 1))


def test_2_6_channels_are_averaged(encoded, prepared):
    stereo = np.array([[0.5, -0.5], [0.25, 0.75]] * 200, np.float32)
    decoded = prepared(encoded(stereo, "FLAC")).clips[0]
    assert decoded.source_channels == 2
    np.testing.assert_allclose(decoded.samples, [0, 0.5] * 200, atol=1e-4)


def test_2_1_a_flac_header_with_a_random_body_is_refused_structurally(refused):
    body = np.random.default_rng(1).bytes(400)
    prefix = "audio clip 0 is corrupt: flac container is malformed: "
    assert refused(b"fLaC" + body).startswith(prefix)


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (6, "metadata block chain runs past the end of the file"),
        (20, "STREAMINFO is truncated"),
    ],
)
def test_2_4_structural_reasons_name_the_container(encoded, tone, refused, cut, text):
    found = refused(encoded(tone(), "FLAC")[:cut])
    assert found == f"audio clip 0 is corrupt: flac container is malformed: {text}"


def test_2_5_no_mp3_frame(refused):
    text = refused(b"ID3" + bytes(200))
    assert text.startswith("audio clip 0 is corrupt: mp3 container could not be parsed: ")


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_2_6_rates_have_the_bounds_of_wav(encoded, tone, refused, narrowed, container):
    data = encoded(tone(0.5, rate=32_000), container, rate=32_000)
    low = narrowed(min_source_sample_rate=44_100)
    text = "audio clip 0 is corrupt: source sample rate 32000 Hz is below the 44100 Hz"
    assert refused(data, policy=low) == f"{text} family minimum"
    high = narrowed(max_source_sample_rate=24_000)
    text = "audio source sample rate limit exceeded: actual 32000, maximum 24000"
    assert refused(data, policy=high) == text


def test_2_6_a_declared_length_is_refused_before_decoding(
    encoded, tone, refused, flac_total, monkeypatch
):
    data = flac_total(encoded(tone(), "FLAC"), 480_001)
    monkeypatch.setattr("models.containers.packets.blocks", None)  # no decoder runs
    text = "audio source duration samples limit exceeded: actual 480001, maximum 480000"
    assert refused(data) == text


def test_2_6_output_beyond_the_longest_clip_is_refused(encoded, tone, narrowed, flac_total):
    data = flac_total(encoded(tone(1.5), "FLAC"), 100)
    policy = narrowed(max_duration_seconds=1)
    opened = open_clip(data, clip=0, bounds=policy, poll=no_poll)
    with pytest.raises(WaveformError, match="source duration samples limit exceeded"):
        decode(opened, clip=0, bounds=policy, poll=no_poll)


def test_2_6_a_header_that_declares_too_little_cuts_nothing(encoded, tone, prepared, flac_total):
    data = flac_total(encoded(tone(1.5), "FLAC"), 100)
    assert prepared(data).total_source_samples == 24_000


def test_2_6_unknown_length_is_taken_for_the_longest(encoded, tone, prepared, refused, flac_total):
    data = flac_total(encoded(tone(0.5), "FLAC"), 0)
    assert prepared(data).total_source_samples == 8_000
    two = refused(data, data)
    assert two.startswith("audio source duration micros per request limit exceeded")


def test_2_6_no_frames_at_all_is_an_empty_clip(encoded, tone, refused, flac_total):
    data = flac_total(encoded(tone(0.5), "FLAC"), 0)
    start = 4
    while True:  # behind the last metadata block
        last, length = data[start] >> 7, int.from_bytes(data[start + 1 : start + 4], "big")
        start += 4 + length
        if last:
            break
    assert refused(data[:start]) == "audio clip 0 is empty"


def test_2_6_an_mp3_that_changes_rate(encoded, tone, refused):
    data = encoded(tone(), "MP3") + encoded(tone(1.0, rate=44_100), "MP3", rate=44_100)
    text = "mp3 stream changes sample rate mid-clip (16000 Hz to 44100 Hz)"
    assert refused(data) == f"audio clip 0 is corrupt: {text}"


def test_2_6_a_bad_packet_is_passed_over(encoded, tone, prepared):
    whole = encoded(tone(2.0), "MP3")
    data = bytearray(whole)
    data[2_000:2_100] = bytes(100)
    damaged = prepared(bytes(data)).total_source_samples
    assert damaged == pytest.approx(prepared(whole).total_source_samples, abs=2_304)


def test_2_6_an_mp3_of_nothing_but_its_xing_frame_is_an_empty_clip(encoded, tone, refused):
    data = encoded(tone(), "MP3")
    frame = mp3.first_frame(io.BytesIO(data), len(data))
    assert mp3.length_tag(frame)
    assert refused(data[: frame.end]) == "audio clip 0 is empty"


@pytest.mark.parametrize("bits", [12, 20, 32])
def test_2_6_a_depth_that_no_decoder_here_has(encoded, tone, refused, bits):
    data = encoded(tone(), "FLAC")
    packed = int.from_bytes(data[18:26], "big") & ~(0b11111 << 36) | bits - 1 << 36
    text = refused(data[:18] + packed.to_bytes(8, "big") + data[26:])
    assert text.startswith("audio clip 0 is corrupt: flac codec is not supported: ")


def test_2_6_an_mp3_that_is_lost_in_junk(encoded, tone, refused):
    text = refused(encoded(tone(), "MP3") + bytes(600_000))
    reason = "mp3 stream ended abnormally: no audio frame after byte "
    assert text.startswith(f"audio clip 0 is corrupt: {reason}")


def test_2_6_a_truncated_flac_ends_abnormally(encoded, tone, refused):
    data = encoded(tone(2.0), "FLAC")
    text = refused(data[: len(data) // 2])
    assert text.startswith("audio clip 0 is corrupt: flac stream ended abnormally: ")


def test_2_1_the_bytes_alone_decide(refused):
    for data in (b"OggS" + bytes(60), b"not audio", b"\xff\x00" * 9):
        assert refused(data) == "audio clip 0 is corrupt: missing RIFF/WAVE header"


@pytest.mark.parametrize("name", ["jfk.wav", "jfk.flac", "jfk.mp3"])
def test_2_6_real_speech(speech_dir, prepared, name):
    batch = prepared((speech_dir / name).read_bytes())
    assert batch.total_source_duration_micros == pytest.approx(11_000_000, abs=20_000)
    assert batch.effective_audio_tokens == 188
    assert 0.3 < np.abs(batch.clips[0].samples).max() <= 1
