"""Section 5.3: where a cancelled request stops, and what it says."""

from __future__ import annotations

import numpy as np
import pytest

from models.preprocess.acquisition import read_file
from models.preprocess.batch import prepare
from models.preprocess.cancellation import (
    CancelFlag,
    Checkpoint,
    PreprocessingCancelled,
    no_poll,
    poll_at,
)
from models.preprocess.decode import decode, open_clip
from models.preprocess.resample import linear, polyphase


def test_3_cancellations_are_spelt_as_in_rust():
    for checkpoint in ("Acquisition", "Decode", "Resample", "Feature", "Queue"):
        for clip, shown in ((None, "None"), (0, "Some(0)"), (7, "Some(7)")):
            text = f"audio preprocessing cancelled during {checkpoint} for clip {shown}"
            with pytest.raises(PreprocessingCancelled) as caught:
                poll_at(lambda: True, Checkpoint(checkpoint), clip)()
            assert str(caught.value) == text


def texts(work, countdown):
    """What each poll of some work says, in order."""
    counted = countdown()
    work(counted)
    found = []
    for left in range(counted.asked):
        with pytest.raises(PreprocessingCancelled) as caught:
            work(countdown(left))
        found.append(str(caught.value).removeprefix("audio preprocessing cancelled during "))
    return found


def test_5_3_the_boundary_polls_in_order(silence, clips, gemma, countdown):
    files = clips(silence(8_192, rate=8_000), silence(10))
    assert texts(lambda flag: prepare(files, gemma, flag), countdown) == [
        "Acquisition for clip None",
        *["Decode for clip Some(0)"] * 2,  # the header: at its start, and after its fmt chunk
        *["Decode for clip Some(1)"] * 2,
        *["Decode for clip Some(0)"] * 2,  # 8,192 frames
        *["Resample for clip Some(0)"] * (1 + 4),  # 16,384 outputs
        "Decode for clip Some(1)",
        "Resample for clip Some(1)",
    ]


@pytest.mark.parametrize(("frames", "polls"), [(4_096, 1), (4_097, 2), (40_960, 10)])
def test_5_3_decoding_polls_every_4096_frames(silence, gemma, countdown, frames, polls):
    opened = open_clip(silence(frames), clip=0, bounds=gemma, poll=no_poll)
    counted = countdown()
    poll = poll_at(counted, Checkpoint.DECODE, 0)
    decode(opened, clip=0, bounds=gemma, poll=poll)
    assert counted.asked == polls


def test_5_3_inspection_polls_after_every_chunk(riff, fmt, chunk, gemma, countdown):
    data = riff(*[chunk(b"LIST", b"")] * 10, fmt(), chunk(b"data", bytes(2)))
    counted = countdown()
    open_clip(data, clip=0, bounds=gemma, poll=poll_at(counted, Checkpoint.DECODE, 0))
    assert counted.asked == 1 + 11


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_5_3_compressed_clips_poll_at_every_packet(encoded, tone, gemma, countdown, container):
    opened = open_clip(encoded(tone(3.0), container), clip=0, bounds=gemma, poll=no_poll)
    counted = countdown()
    decode(opened, clip=0, bounds=gemma, poll=poll_at(counted, Checkpoint.DECODE, 0))
    assert counted.asked >= 1 + 3  # blocks of a second at most


def test_5_3_polyphase_polls(countdown):
    counted = countdown()
    samples = np.zeros(48_000, np.float32)
    polyphase(samples, 48_000, poll_at(counted, Checkpoint.RESAMPLE, 0))
    taps, outputs = 61, 16_000
    assert counted.asked == 1 + -(-taps // 64) + -(-outputs // 1_024) + 1
    counted = countdown()
    polyphase(samples, 192_000, poll_at(counted, Checkpoint.RESAMPLE, 0))
    taps, outputs = 241, 4_000
    assert counted.asked == 1 + -(-taps // 64) + -(-outputs // 1_024) + 1


def test_5_3_linear_polls_every_4096_outputs(countdown):
    counted = countdown()
    linear(np.zeros(8_000, np.float32), 8_000, poll_at(counted, Checkpoint.RESAMPLE, 0))
    assert counted.asked == 1 + -(-16_000 // 4_096)


def test_5_1_files_poll_before_and_after_every_chunk(tmp_path, countdown):
    path = tmp_path / "clip.wav"
    path.write_bytes(bytes(150_000))
    found = texts(
        lambda flag: read_file(path, clip=4, max_bytes=1 << 20, cancelled=flag), countdown
    )
    assert found == ["Acquisition for clip Some(4)"] * 2 * (3 + 1)


def test_5_3_a_flag_is_set_once_for_all():
    flag = CancelFlag()
    assert not flag()
    flag.cancel()
    flag.cancel()
    assert flag()
