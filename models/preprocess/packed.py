"""MP3 and FLAC clips behind the same boundary as WAV.

The container is walked before any decoder sees it; the decoder's output is held to the policy's
longest clip, whatever the header said.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from models.containers import flac, mp3, packets
from models.containers.geometry import Container, Geometry, Malformed
from models.containers.packets import Positioned
from models.preprocess.cancellation import Poll
from models.preprocess.errors import CorruptClip
from models.preprocess.source import SourceBounds, check_duration, check_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedClip:
    data: bytes
    clip: int
    geometry: Geometry
    max_frames: int

    @property
    def sample_rate(self) -> int:
        return self.geometry.sample_rate

    @property
    def channels(self) -> int:
        return self.geometry.channels

    @property
    def frames(self) -> int:
        return self.geometry.frames or self.max_frames

    def blocks(self, poll: Poll) -> Iterator[Positioned]:
        poll()
        try:
            for _, block in packets.blocks(io.BytesIO(self.data), self.geometry):
                poll()
                yield 0, block  # errors number frames from the start of their packet
        except Malformed as error:
            raise CorruptClip(self.clip, str(error)) from error


def open_packed(
    data: bytes, container: Container, *, clip: int, bounds: SourceBounds, poll: Poll
) -> PackedClip:
    poll()
    probe = mp3.probe if container is Container.MP3 else flac.probe
    try:
        geometry = probe(io.BytesIO(data), len(data))
    except Malformed as error:
        raise CorruptClip(clip, str(error)) from error
    check_rate(geometry.sample_rate, clip, bounds)
    opened = PackedClip(
        data=data,
        clip=clip,
        geometry=geometry,
        max_frames=geometry.sample_rate * bounds.max_duration_seconds,
    )
    check_duration(opened.frames, opened.sample_rate, bounds)
    return opened
