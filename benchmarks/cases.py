"""What is measured: the cases of the stored baseline, and files of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import recordings, systems
from benchmarks.recordings import Recording
from benchmarks.round_trip import SENTENCES
from benchmarks.runner import Message, System
from benchmarks.service import OverHttp


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Which systems take part beside this project."""

    stt: str = "whisper-base"
    tts: str = "kokoro-82m"
    peers: bool = True
    slow: bool = False
    """With mlx-whisper as installed, 40 times slower than all others."""
    http: bool = False
    few_bits: bool = True
    """With this project in 8 bits, beside what ``stt`` names."""
    only: Sequence[str] | None = None
    """Of the peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    title: str
    systems: Sequence[System]
    requests: Sequence[Message]
    reference: str = ""
    """What is said, where that is known."""


def clip(setting: Setting) -> Case:
    return hearing("an 11-s clip", [recordings.clip()], setting)


def recording(setting: Setting) -> Case:
    return hearing("a 3-minute recording", [recordings.recording()], setting)


def files(paths: Sequence[Path], setting: Setting) -> Case:
    heard = [Recording(path.absolute(), "") for path in paths]
    return hearing(f"{len(paths)} files", heard, setting)


def hearing(title: str, heard: Sequence[Recording], setting: Setting) -> Case:
    own: list[System] = [systems.own(setting.stt)]
    own += [systems.in_few_bits(setting.stt)] if setting.few_bits else []
    own += [OverHttp(stt=setting.stt)] if setting.http else []
    peers = systems.whisper_peers(setting.stt) if setting.peers else ()
    return Case(
        title=title,
        systems=own + _chosen(peers, setting),
        requests=[one.request for one in heard],
        reference=" ".join(one.text for one in heard),
    )


def speech(setting: Setting) -> Case:
    own: list[System] = [systems.own(setting.tts)]
    own += [OverHttp(tts=setting.tts)] if setting.http else []
    peers = systems.kokoro_peers(setting.tts) if setting.peers else ()
    with systems.own(setting.tts).start() as kokoro:
        spelt = [kokoro.ask({"spell": sentence}) for sentence in SENTENCES]
    return Case(
        title="ten sentences, one after the other",
        systems=own + _chosen(peers, setting),
        requests=[
            {"text": sentence, "phonemes": answer["phonemes"]}
            for sentence, answer in zip(SENTENCES, spelt, strict=True)
        ],
    )


def _chosen(peers: Iterable[System], setting: Setting) -> list[System]:
    return [
        peer
        for peer in peers
        if (setting.only is None or peer.name in setting.only)
        and (setting.slow or peer.name != systems.SLOW)
    ]


CASES: dict[str, Callable[[Setting], Case]] = {
    "clip": clip,
    "recording": recording,
    "speech": speech,
}
