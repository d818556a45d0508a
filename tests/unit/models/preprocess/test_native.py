"""Section 3, last of its decoders: one clip at its native rate."""

from __future__ import annotations

import numpy as np
import pytest

from models.preprocess.cancellation import PreprocessingCancelled
from models.preprocess.errors import WaveformError
from models.preprocess.native import NATIVE, NativeBounds, decode_native


def refusal(data: bytes, **bounds) -> str:
    with pytest.raises(WaveformError) as caught:
        decode_native(data, bounds=NativeBounds(**bounds))
    return str(caught.value)


@pytest.mark.parametrize("rate", [1, 7_999, 16_000, 44_100, 192_001, 2**32 - 1])
def test_3_native_rate_is_any_and_nothing_is_resampled(wav, rate):
    values = np.linspace(-1, 1, 999, dtype=np.float32)
    clip = decode_native(wav(values, rate=rate))
    assert clip.sample_rate == rate
    assert np.array_equal(clip.samples, values)


def test_3_native_decoder_averages_and_clamps_as_the_boundary(wav, prepared):
    stereo = wav(np.array([[2, 0], [-2, 0], [0.5, -0.5]], np.float32))
    native = decode_native(stereo).samples
    assert native.tolist() == [1, -1, 0]
    assert np.array_equal(native, prepared(stereo).clips[0].samples)


def test_3_native_clips_last_24_hours_at_most(silence):
    day = 86_400
    assert day == NATIVE.max_duration_seconds
    assert len(decode_native(silence(day, rate=1)).samples) == day
    text = f"audio source duration samples limit exceeded: actual {day + 1}, maximum {day}"
    assert refusal(silence(day + 1, rate=1)) == text


def test_3_native_clips_have_500_mib_at_most(silence):
    most = 524_288_000
    assert most == NATIVE.max_encoded_bytes_per_clip
    text = f"audio encoded bytes per clip limit exceeded: actual {most + 1}, maximum {most}"
    assert refusal(bytes(most + 1)) == text  # before anything else is looked at
    data = silence(9)
    assert len(decode_native(data, bounds=NativeBounds(max_encoded_bytes_per_clip=62)).samples) == 9
    assert "actual 62, maximum 61" in refusal(data, max_encoded_bytes_per_clip=61)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda silence: silence(9)[:-1], "is corrupt: declared WAV chunk exceeds payload"),
        (lambda silence: silence(0), "is empty"),
        (lambda silence: silence(9, rate=0), "is corrupt: WAV channel count and sample rate must"),
        (lambda _silence: b"OggS", "is corrupt: missing RIFF/WAVE header"),
    ],
)
def test_3_native_decoder_is_as_strict_as_the_boundary(silence, build, text):
    assert refusal(build(silence)).startswith(f"audio clip 0 {text}")


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_3_native_rate_of_compressed_clips(encoded, tone, container):
    clip = decode_native(encoded(tone(0.25, rate=32_000), container, rate=32_000))
    assert clip.sample_rate == 32_000
    assert abs(len(clip.samples) - 8_000) <= 2_304


def test_2_6_a_native_clip_of_unknown_length_is_held_to_its_bound(encoded, tone, flac_total):
    data = flac_total(encoded(tone(1.5), "FLAC"), 0)
    assert len(decode_native(data, bounds=NativeBounds(max_duration_seconds=2)).samples) == 24_000
    text = "audio source duration samples limit exceeded: actual 24000, maximum 16000"
    assert refusal(data, max_duration_seconds=1) == text


def test_5_3_native_decoding_may_be_given_up(silence, countdown):
    data = silence(8_192)
    decode_native(data, cancelled=(counted := countdown()))
    assert counted.asked == 2 + 2  # the header, then every 4,096 frames
    for left in range(counted.asked):
        with pytest.raises(PreprocessingCancelled, match="during Decode for clip Some"):
            decode_native(data, cancelled=countdown(left))
