from __future__ import annotations

import io
import struct

import pytest

from app.audio.sniff import probe
from app.errors import BadAudio
from models.containers.geometry import Container
from models.containers.sniff import sniff

PREFIX = "failed to read the uploaded audio: "


def geometry(data: bytes):
    return probe(io.BytesIO(data), len(data))


def reason(data: bytes) -> str:
    with pytest.raises(BadAudio) as caught:
        geometry(data)
    assert caught.value.body() == {
        "message": caught.value.message,
        "type": "invalid_request_error",
        "param": "file",
        "code": "invalid_audio",
    }
    assert caught.value.message.startswith(PREFIX)
    return caught.value.message.removeprefix(PREFIX)


@pytest.mark.parametrize(
    ("head", "container"),
    [
        (b"RIFF\0\0\0\0WAVE", Container.WAV),
        (b"RF64\xff\xff\xff\xffWAVE", Container.WAV),
        (b"RIFF\0\0\0\0WAV", None),
        (b"RIFF\0\0\0\0AVI ", None),
        (b"RIFX\0\0\0\0WAVE", None),
        (b"fLaC", Container.FLAC),
        (b"fLa", None),
        (b"ID3", Container.MP3),
        (b"ID", None),
        (b"\xff\xe0", Container.MP3),
        (b"\xff\xfb\x90", Container.MP3),
        (b"\xff\xdf", None),
        (b"\xff", None),
        (b"OggS\0\0\0\0\0\0\0\0", None),
        (b"FORM\0\0\0\0AIFF", None),
        (b"", None),
    ],
)
def test_2_1_the_first_bytes_alone_tell_the_container(head, container):
    assert sniff(head) is container


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", b"plain text", b"OggS" + bytes(60), b"FORM\0\0\0\0AIFFCOMM", bytes(100)],
)
def test_2_3_unknown_or_empty_uploads_are_answered_by_the_wav_probe(data):
    assert reason(data) == "not a RIFF/WAVE file"


def test_2_3_wav_geometry(riff, fmt, chunk):
    data = riff(fmt(channels=2, rate=8000, bits=24), chunk(b"data", bytes(6 * 4000)))
    found = geometry(data)
    assert (found.container, found.sample_rate, found.channels) == ("wav", 8000, 2)
    assert found.frames == 4000
    assert found.duration_seconds == 0.5


@pytest.mark.parametrize(("bits", "frames"), [(8, 120), (12, 60), (16, 60), (20, 40), (32, 30)])
def test_2_3_a_sample_takes_whole_bytes(riff, fmt, chunk, bits, frames):
    assert geometry(riff(fmt(bits=bits), chunk(b"data", bytes(120)))).frames == frames


def test_2_3_riff_size_format_tag_and_block_align_are_not_examined(riff, fmt, chunk):
    odd = bytearray(riff(fmt(tag=0x1234), chunk(b"data", bytes(20)), size=7))
    odd[32:34] = b"\0\0"
    assert geometry(bytes(odd)).frames == 10


def test_2_3_other_chunks_are_skipped_with_their_pad_byte(riff, fmt, chunk):
    data = riff(chunk(b"LIST", b"odd"), fmt(), chunk(b"junk", b"x"), chunk(b"data", bytes(8)))
    assert geometry(data).frames == 4


@pytest.mark.parametrize("size", [100, 0x7FFFFFFF, 0xFFFFFFFF])
def test_2_3_a_data_chunk_is_clamped_to_the_bytes_present(riff, fmt, chunk, size):
    assert geometry(riff(fmt(), chunk(b"data", bytes(20), size))).frames == 10


def test_2_3_a_streamed_header_without_data_has_no_frames(riff, fmt, chunk):
    data = riff(fmt(), chunk(b"data", b"", 0xFFFFFFFF))
    assert len(data) == 44
    assert geometry(data).frames == 0


def test_2_3_a_size_of_zero_that_samples_follow_was_never_filled_in(riff, fmt, chunk):
    assert geometry(riff(fmt(), chunk(b"data", bytes(2000), 0))).frames == 1000


def test_2_3_an_empty_data_chunk_before_another_chunk_is_empty(riff, fmt, chunk):
    data = riff(fmt(), chunk(b"data", b""), chunk(b"LIST", b"INFO"))
    assert geometry(data).frames == 0


def test_2_3_rf64_takes_its_size_from_ds64(riff, fmt, chunk):
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, 20, 0, 0))
    data = riff(
        ds64, fmt(), chunk(b"data", bytes(20), 0xFFFFFFFF), chunk(b"LIST", b"INFO"), magic=b"RF64"
    )
    assert geometry(data).frames == 10


def test_2_3_fmt_needs_16_bytes_present(riff, chunk):
    assert reason(riff(chunk(b"fmt ", bytes(15)))) == "truncated fmt chunk"
    assert reason(riff(chunk(b"fmt ", bytes(10), 16))) == "truncated fmt chunk"


def test_2_3_missing_fmt(riff, chunk):
    assert reason(riff()) == "missing fmt chunk"
    assert reason(riff(chunk(b"LIST", b"x", 1 << 31))) == "missing fmt chunk"


def test_2_3_data_before_fmt_is_refused(riff, fmt, chunk):
    assert reason(riff(chunk(b"data", bytes(8)), fmt())) == "missing fmt chunk"


def test_2_3_missing_data(riff, fmt, chunk):
    assert reason(riff(fmt())) == "missing data chunk"
    assert reason(riff(fmt(), chunk(b"HURF", b"x", 962_000_000))) == "missing data chunk"
    assert reason(riff(fmt()) + b"data\0\0\0") == "missing data chunk"


@pytest.mark.parametrize("zero", ["rate", "channels", "bits"])
def test_2_3_degenerate_fmt(riff, fmt, chunk, zero):
    assert reason(riff(fmt(**{zero: 0}), chunk(b"data", bytes(8)))) == "degenerate fmt chunk"


def test_2_3_the_walk_over_chunks_is_bounded(riff, fmt, chunk):
    data = riff(fmt(), *[chunk(b"junk", b"")] * 5000, chunk(b"data", bytes(8)))
    assert reason(data) == "missing data chunk"


def block(kind: int, body: bytes, *, last=False, size=None) -> bytes:
    length = len(body) if size is None else size
    return bytes([kind | (0x80 if last else 0)]) + length.to_bytes(3, "big") + body


def streaminfo(*, rate=44_100, channels=2, bits=16, total=441_000) -> bytes:
    packed = rate << 44 | channels - 1 << 41 | bits - 1 << 36 | total
    return bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def test_2_4_flac_geometry():
    found = geometry(b"fLaC" + block(0, streaminfo()) + block(4, b"tags", last=True))
    assert (found.container, found.sample_rate, found.channels) == ("flac", 44_100, 2)
    assert found.duration_seconds == 10.0
    assert found.bit_depth == 16


def test_2_4_flac_total_of_zero_is_unknown_and_passes():
    assert geometry(b"fLaC" + block(0, streaminfo(total=0), last=True)).duration_seconds is None


FLAC_FAULTS = {
    "header missing": (b"", "metadata block chain runs past the end of the file"),
    "next header missing": (
        block(0, streaminfo()),
        "metadata block chain runs past the end of the file",
    ),
    "another block first": (
        block(4, bytes(34), last=True),
        "first metadata block is not a 34-byte STREAMINFO",
    ),
    "another length": (
        block(0, bytes(33), last=True),
        "first metadata block is not a 34-byte STREAMINFO",
    ),
    "cut": (block(0, bytes(20), last=True, size=34), "STREAMINFO is truncated"),
    "rate 0": (
        block(0, streaminfo(rate=0), last=True),
        "STREAMINFO declares an out-of-range sample rate",
    ),
    "rate too high": (
        block(0, streaminfo(rate=655_351), last=True),
        "STREAMINFO declares an out-of-range sample rate",
    ),
    "3 bits": (
        block(0, streaminfo(bits=3), last=True),
        "STREAMINFO declares an out-of-range sample depth",
    ),
    "long block": (
        block(0, streaminfo()) + block(4, b"x", last=True, size=9),
        "a metadata block extends past the end of the file",
    ),
    "endless": (
        block(0, streaminfo()) + block(1, bytes(262_144)) + block(1, b"", last=True),
        "metadata block chain does not terminate",
    ),
}


@pytest.mark.parametrize("fault", FLAC_FAULTS)
def test_2_4_flac_fault(fault):
    data, text = FLAC_FAULTS[fault]
    wrapped = "audio clip 0 is corrupt: flac container is malformed: "
    assert reason(b"fLaC" + data) == wrapped + text


def test_2_5_mp3_geometry_from_the_first_frame_and_the_xing_count(encoded, tone):
    found = geometry(encoded(tone(2.0, rate=44_100, channels=2), "MP3", rate=44_100))
    assert (found.container, found.sample_rate, found.channels) == ("mp3", 44_100, 2)
    assert found.frames is not None
    assert found.frames % 1152 == 0
    assert found.duration_seconds == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 32_000, 48_000])
def test_2_5_mp3_versions(encoded, tone, rate):
    found = geometry(encoded(tone(1.0, rate=rate), "MP3", rate=rate))
    assert (found.sample_rate, found.channels) == (rate, 1)
    assert found.duration_seconds == pytest.approx(1.0, abs=0.2)


def test_2_5_mp3_without_a_count_is_undeclared_and_passes(encoded, tone, untagged):
    assert geometry(untagged(encoded(tone(), "MP3"))).duration_seconds is None


def test_2_5_vbri_count(encoded, tone, untagged):
    frame = bytearray(bytes.fromhex("fffb9000") + bytes(413))
    frame[36:54] = b"VBRI" + bytes(10) + struct.pack(">I", 1000)
    stream = bytes(frame) + (bytes.fromhex("fffb9000") + bytes(413)) * 2
    assert geometry(stream).duration_seconds == 1000 * 1152 / 44_100


def id3(size: int, *, footer=False) -> bytes:
    synchsafe = bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x04\0" + (b"\x10" if footer else b"\0") + synchsafe + bytes(size + 10 * footer)


@pytest.mark.parametrize("footer", [False, True])
def test_2_5_id3_tags_are_skipped_by_their_size(encoded, tone, footer):
    data = encoded(tone(), "MP3")
    tagged = id3(5000, footer=footer) + id3(300) + data
    assert geometry(tagged) == geometry(data)


def test_2_5_a_tag_larger_than_the_prefix_leaves_no_frame(encoded, tone):
    data = id3(262_144) + encoded(tone(), "MP3")
    assert reason(data).startswith("audio clip 0 is corrupt: mp3 container could not be parsed: ")
    lenient = probe(io.BytesIO(data), len(data), mp3_prefix_bytes=1 << 20)
    assert lenient.container is Container.MP3


def test_2_5_junk_before_the_first_frame_is_passed_over(encoded, tone):
    data = encoded(tone(), "MP3")
    assert geometry(id3(0) + b"\xff\xfb\x90\x00 junk \xff\xff" * 20 + data) == geometry(data)


@pytest.mark.parametrize(
    "header",
    [
        "ffeb9000",  # version reserved
        "fffd9000",  # layer II
        "fffff000",  # layer I, bad bitrate
        "fffb0000",  # free bitrate
        "fffbf000",  # bad bitrate
        "fffb9c00",  # rate reserved
    ],
)
def test_2_5_invalid_frame_headers(header):
    data = (bytes.fromhex(header) + bytes(413)) * 4
    assert "mp3 container could not be parsed" in reason(data)


def test_2_5_a_lone_header_that_no_like_frame_follows_is_no_mp3():
    assert "no MPEG audio frame" in reason(b"\xff\xfb\x90\x00" + bytes(2000))


def test_2_6_a_truncation_to_48_bytes_is_refused(encoded, tone):
    for format_ in ("FLAC", "MP3"):
        assert "corrupt" in reason(encoded(tone(0.25), format_)[:48])


class Counting(io.BytesIO):
    total = 0

    def read(self, count=-1):
        data = super().read(count)
        self.total += len(data)
        return data


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "MP3"])
def test_the_audio_itself_is_not_read(encoded, tone, format_):
    noise = tone(60.0) + 0.2
    data = encoded(noise, format_) + bytes(4 << 20)
    file = Counting(data)
    probe(file, len(data))
    assert file.total <= 262_144 + 100
