from __future__ import annotations

import io

import pytest

from app.audio.limits import Limits, check, inspect
from app.errors import BadAudio
from models.containers.geometry import Container, Geometry


def geometry(*, rate=16_000, channels=1, seconds: float | None = 1.0) -> Geometry:
    frames = None if seconds is None else round(seconds * rate)
    return Geometry(container=Container.WAV, sample_rate=rate, channels=channels, frames=frames)


def message(found: Geometry, size: int = 100) -> str:
    with pytest.raises(BadAudio) as caught:
        check(found, size, Limits())
    assert caught.value.status == 400
    return caught.value.message


def test_2_2_bytes():
    assert message(geometry(), 26_214_401) == (
        "audio upload is 26214401 bytes, maximum is 26214400 bytes"
    )


def test_2_2_sample_rate():
    assert message(geometry(rate=192_001)) == (
        "audio sample rate 192001 Hz exceeds the maximum of 192000 Hz"
    )


def test_2_2_channels():
    assert message(geometry(channels=9)) == "audio has 9 channels, maximum is 8"


@pytest.mark.parametrize(
    ("seconds", "text"), [(600.5, "600.5"), (600.01, "600.0"), (7200, "7200.0")]
)
def test_2_2_duration_has_one_decimal(seconds, text):
    assert message(geometry(seconds=seconds)) == (
        f"audio is {text} seconds long, maximum is 600 seconds"
    )


def test_2_2_the_bounds_themselves_pass():
    check(geometry(rate=192_000, channels=8, seconds=600), 26_214_400, Limits())


def test_2_2_an_unknown_duration_passes():
    check(geometry(seconds=None), 100, Limits())


def test_2_2_order_bytes_rate_channels_duration():
    worst = geometry(rate=400_000, channels=20, seconds=9999)
    assert "bytes" in message(worst, 1 << 30)
    assert "sample rate" in message(worst)
    assert "channels" in message(geometry(channels=20, seconds=9999))


def test_2_2_bytes_come_before_structure():
    with pytest.raises(BadAudio, match="audio upload is 11 bytes, maximum is 10 bytes"):
        inspect(io.BytesIO(b"not a sound"), Limits(max_bytes=10))


def test_2_2_structure_comes_before_the_declared_bounds(riff, fmt, chunk):
    data = riff(fmt(rate=1_000_000, bits=0), chunk(b"data", b""))
    with pytest.raises(BadAudio, match="degenerate fmt chunk"):
        inspect(io.BytesIO(data), Limits())


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("bad_absurd_rate.wav", "audio sample rate 1092676 Hz exceeds the maximum of 192000 Hz"),
        ("bad_lying_chunk.wav", "failed to read the uploaded audio: missing data chunk"),
        ("bad_no_data_chunk.wav", "failed to read the uploaded audio: missing data chunk"),
        ("french.aiff", "failed to read the uploaded audio: not a RIFF/WAVE file"),
    ],
)
def test_real_bad_files_are_refused(speech_dir, name, outcome):
    with (speech_dir / name).open("rb") as file, pytest.raises(BadAudio) as caught:
        inspect(file, Limits())
    assert caught.value.message == outcome
