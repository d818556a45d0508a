"""MPEG audio layer III: finding frames, and what their headers declare.

Scans a bounded stretch of bytes; decodes nothing. A Xing, Info or VBRI header is believed for the
declared length only; `endless_header` makes a decoder read on to the real end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO, Self

from models.containers.geometry import Container, Geometry, Malformed

PREFIX_BYTES = 262_144  # searched for the first frame
MAX_TAGS = 16  # ID3v2 tags skipped one after another
ENDLESS = 0x0FFF_FFFF  # frames; longer than any file, and still no overflow in a decoder

_V1_KBPS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_V2_KBPS = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_THIRD = bytes(high << 4 | low for high in range(1, 15) for low in range(12))
# Sync, version not reserved, layer III; bitrate neither free nor bad, rate not reserved.
_HEADER = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][" + re.escape(_THIRD) + rb"]", re.DOTALL)
_SAME = 0xFFFE_0C00  # the bits that frames of one stream share: sync, version, layer, rate
_TAGS = (b"TAG", b"ID3", b"APE", b"LYR")  # what may follow the last frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The four bytes that begin a frame."""

    raw: bytes

    @classmethod
    def parse(cls, raw: bytes) -> Self | None:
        return cls(raw=raw[:4]) if len(raw) >= 4 and _HEADER.match(raw) else None

    @property
    def mpeg1(self) -> bool:
        return self.raw[1] >> 3 & 0b11 == 3

    @property
    def sample_rate(self) -> int:
        return _RATES[self.raw[1] >> 3 & 0b11][self.raw[2] >> 2 & 0b11]

    @property
    def channels(self) -> int:
        return 1 if self.raw[3] >> 6 == 3 else 2

    @property
    def samples(self) -> int:
        return 1152 if self.mpeg1 else 576

    @property
    def frame_bytes(self) -> int:
        kbps = (_V1_KBPS if self.mpeg1 else _V2_KBPS)[self.raw[2] >> 4]
        return self.samples * 125 * kbps // self.sample_rate + (self.raw[2] >> 1 & 1)

    @property
    def side_info_bytes(self) -> int:
        if self.mpeg1:
            return 32 if self.channels == 2 else 17
        return 17 if self.channels == 2 else 9

    def follows(self, other: Header) -> bool:
        return not (int.from_bytes(self.raw, "big") ^ int.from_bytes(other.raw, "big")) & _SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame that a consistent one follows, with its bytes."""

    offset: int
    header: Header
    body: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthTag:
    """A Xing, Info or VBRI header."""

    frames: int | None
    at: int | None
    """Where the Xing frame count stands in its frame; None if it has none there."""


def probe(file: BinaryIO, size: int, *, prefix_bytes: int = PREFIX_BYTES) -> Geometry:
    frame = first_frame(file, size, prefix_bytes=prefix_bytes)
    tag = length_tag(frame)
    return Geometry(
        container=Container.MP3,
        sample_rate=frame.header.sample_rate,
        channels=frame.header.channels,
        frames=tag.frames * frame.header.samples if tag and tag.frames else None,
    )


def first_frame(file: BinaryIO, size: int, *, prefix_bytes: int = PREFIX_BYTES) -> Frame:
    start = _skip_tags(file)
    stop = min(size, prefix_bytes, start + PREFIX_BYTES)
    frame = find_frame(file, size, start=start, stop=stop)
    if frame is None:
        reason = f"no MPEG audio frame in the first {stop} bytes"
        raise Malformed(f"mp3 container could not be parsed: {reason}")
    return frame


def find_frame(file: BinaryIO, size: int, *, start: int, stop: int) -> Frame | None:
    """The first frame in the stretch that a like one follows, or that the file ends with."""
    data = _read(file, start, max(0, stop - start))
    for match in _HEADER.finditer(data):
        at = match.start()
        header = Header.parse(data[at : at + 4])
        if header and _confirmed(data, at + header.frame_bytes, header, ends=stop >= size):
            return Frame(offset=start + at, header=header, body=data[at : at + header.frame_bytes])
    return None


def audio_end(file: BinaryIO, size: int) -> int:
    """Where the tags at the end begin: ID3v1, and before it APEv2, which may hold cover art."""
    end = size
    if _read(file, end - 128, 3) == b"TAG":
        end -= 128
    footer = _read(file, end - 32, 32)
    if footer[:8] == b"APETAGEX":
        has_header = footer[23] & 0x80
        start = end - int.from_bytes(footer[12:16], "little") - (32 if has_header else 0)
        end = start if start > 0 else end  # a tag larger than the file lies
    return end


def length_tag(frame: Frame) -> LengthTag | None:
    body = frame.body
    for at in (
        4 + frame.header.side_info_bytes,
        6 + frame.header.side_info_bytes,
    ):  # without, with CRC
        if body[at : at + 4] in (b"Xing", b"Info"):
            has_frames = len(body) >= at + 12 and body[at + 7] & 1
            frames = int.from_bytes(body[at + 8 : at + 12], "big") if has_frames else None
            return LengthTag(frames=frames, at=at + 8 if has_frames else None)
    if body[36:40] == b"VBRI" and len(body) >= 54:
        return LengthTag(frames=int.from_bytes(body[50:54], "big"), at=None)
    return None


def endless_header(frame: Frame) -> tuple[bytes, int]:
    """A first frame that declares no end, and the offset in the file that goes on after it.

    Without one, mpg123 guesses the length from the first bitrate and stops there.
    """
    tag = length_tag(frame)
    count = ENDLESS.to_bytes(4, "big")
    if tag and tag.at is not None:  # keep the frame: it also tells how much silence to trim
        return frame.body[: tag.at] + count + frame.body[tag.at + 4 :], frame.end
    raw = frame.header.raw
    # No CRC, bitrate index 5 (long enough for the tag at every rate), no padding.
    header = Header(raw=bytes((raw[0], raw[1] | 1, 5 << 4 | raw[2] & 0b1100, raw[3])))
    body = header.raw + b"\0" * header.side_info_bytes + b"Xing" + (1).to_bytes(4, "big") + count
    return body.ljust(header.frame_bytes, b"\0"), frame.end if tag else frame.offset


def _skip_tags(file: BinaryIO) -> int:
    offset = 0
    for _ in range(MAX_TAGS):
        head = _read(file, offset, 10)
        if len(head) < 10 or head[:3] != b"ID3":
            break
        length = sum(
            (byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True)
        )
        offset += 10 + length + (10 if head[5] & 0x10 else 0)  # a footer repeats the header
    return offset


def _read(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(max(0, offset))
    return file.read(count)


def _confirmed(data: bytes, end: int, header: Header, *, ends: bool) -> bool:
    if end > len(data):
        return False
    following = data[end : end + 4]
    if len(following) < 4 or following[:3] in _TAGS:
        return ends
    other = Header.parse(following)
    return other is not None and other.follows(header)
