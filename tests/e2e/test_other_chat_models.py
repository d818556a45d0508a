"""A chat model of a family without a pinned policy through the whole service, over the queue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from models.chat_prompt import DEFAULT_PROMPT
from tests.chat_calls import ROUTE, curl, heard, post, recording, refused, streamed
from tests.harness import Service, calls, eventually, fake_model

pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")

from tests.chat_families import write_family


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes Whisper's place beside the chat model."""
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def omni(tmp_path_factory: pytest.TempPathFactory, whisper: Path) -> Iterator[Service]:
    checkpoint = write_family(tmp_path_factory.mktemp("omni"), "qwen3_omni_moe")
    models = ("--chat-model", str(checkpoint), "--stt-model", str(whisper), "--tts-model", "")
    service = Service(tmp_path_factory.mktemp("data"), *models)
    yield service
    assert service.stop() == 0


def test_deltas_arrive_one_by_one_in_order(omni: Service) -> None:
    deltas, done = streamed(omni, recording(), max_tokens="40")
    assert len(deltas) > 10
    assert done == heard(omni, recording(), max_tokens="40")
    assert "".join(deltas) == done["text"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_writes_each_delta_while_the_job_runs(omni: Service, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(recording())
    text = heard(omni, recording(), max_tokens="40")["text"]
    said = ""
    with curl(omni, tmp_path / "a.wav", stream="true", max_tokens="1900") as deltas:
        for delta in islice(deltas, 10):
            said += delta
            assert len(delta) == 1  # a letter a token
        (job,) = omni.client.get("/v1/jobs", params={"status": "running"}).json()["data"]
    assert text.startswith(said)
    url = job["links"]["self"]
    eventually(lambda: omni.client.get(url).json()["status"] == "cancelled")


def test_usage_is_real_and_words_reach_the_model(omni: Service) -> None:
    usage = heard(omni, recording(), max_tokens="7")["usage"]
    around = len(f"user\n{DEFAULT_PROMPT}\nassistant\n") + 3 + 2  # marks of turns, and of the clip
    assert usage == {
        "type": "tokens",
        "input_tokens": around + 13,
        "output_tokens": 7,
        "total_tokens": around + 13 + 7,
        "input_tokens_details": {"cached_tokens": 0},
    }
    told = heard(omni, recording(), max_tokens="7", prompt=" Listen ", language="de")["usage"]
    longer = len("Listen (language: de)") - len(DEFAULT_PROMPT)
    assert told["input_tokens"] == usage["input_tokens"] + longer


def test_temperature_reaches_the_model(omni: Service) -> None:
    same = {heard(omni, recording(), max_tokens="12")["text"] for _ in range(3)}
    hot = {heard(omni, recording(), max_tokens="12", temperature="5")["text"] for _ in range(3)}
    assert (len(same), len(hot) > 1) == (1, True)


def test_a_long_recording_is_heard_in_windows_for_a_caller_too(omni: Service) -> None:
    deltas, done = streamed(omni, recording(65, 22_050), max_tokens="3")
    assert done["usage"]["output_tokens"] == 3 * 3
    assert "".join(deltas) == done["text"]
    job = post(omni, recording(65), "/v1/jobs", kind="transcription", max_tokens="3")
    links = job.json()["links"]
    eventually(lambda: omni.client.get(links["self"]).json()["status"] == "succeeded")
    assert omni.client.get(links["result"]).json()["usage"]["output_tokens"] == 3 * 3


@pytest.mark.parametrize("stream", ["", "true"])
def test_3_its_recordings_are_decoded_strictly(omni: Service, stream: str) -> None:
    for audio, text in (
        (recording(subtype="PCM_24"), "is corrupt: unsupported WAV format 1/24-bit"),
        (recording()[:-100], "is corrupt: declared WAV chunk exceeds payload"),
    ):
        assert refused(omni, audio, stream=stream) == f"audio clip 0 {text}"
    mark = "<|audio_pad|>"
    message = refused(omni, recording(), stream=stream, prompt=f"twice {mark}")
    assert message == f"message text contains the model's own mark {mark}"


def test_the_order_is_chat_model_then_whisper(omni: Service, whisper: Path) -> None:
    before = len(calls(whisper))
    heard(omni, recording(), max_tokens="1")
    assert len(calls(whisper)) == before
    answer = post(omni, recording(), "/v1/audio/translations")
    assert answer.json()["text"].startswith("translate:")
    assert len(calls(whisper)) == before + 1


def test_an_unsupported_one_is_named_at_start_and_whisper_hears(
    tmp_path: Path, whisper: Path
) -> None:
    folder = tmp_path / "voxtral-mini"
    folder.mkdir()
    config = {"model_type": "voxtral", "audio_config": {"hidden_size": 32}}
    (folder / "config.json").write_text(json.dumps(config))
    models = ("--chat-model", str(folder), "--stt-model", str(whisper), "--tts-model", "")
    service = Service(tmp_path / "data", *models)
    answer = service.client.post(ROUTE, files={"file": ("a.wav", recording())})
    assert answer.json()["text"].startswith("transcribe:")
    assert service.stop() == 0
    assert "does not load the model type 'voxtral' as one that hears" in service.log
