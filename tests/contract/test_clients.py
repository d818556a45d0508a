"""Stock clients, unchanged: OpenAI's Python SDK and the curl lines of the documentation."""

from __future__ import annotations

import shutil
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.contract.wire import recording
from tests.harness import Service

CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="there is no curl on this machine")


@pytest.fixture(scope="module")
def sdk(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    file = tmp_path / "recording.wav"
    file.write_bytes(recording())
    return file


def test_sdk_speech(sdk: openai.OpenAI, tmp_path: Path) -> None:
    speech = sdk.audio.speech.create(
        model="tts-1", voice="alloy", input="Hello world", response_format="wav", speed=1.5
    )
    speech.write_to_file(tmp_path / "speech.wav")
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getnframes() > 0


def test_sdk_streamed_speech(sdk: openai.OpenAI, tmp_path: Path) -> None:
    with sdk.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="Hello world", response_format="wav"
    ) as speech:
        speech.stream_to_file(tmp_path / "speech.wav")
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getnframes() > 0


def test_sdk_transcription(sdk: openai.OpenAI, clip: Path) -> None:
    with clip.open("rb") as file:
        answer = sdk.audio.transcriptions.create(
            model="whisper-1", file=file, language="en", prompt="p", temperature=0
        )
    assert answer.text.startswith("transcribe:")


def test_sdk_streamed_transcription(sdk: openai.OpenAI, clip: Path) -> None:
    with clip.open("rb") as file:
        events = list(sdk.audio.transcriptions.create(model="m", file=file, stream=True))
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]
    assert events[0].delta == events[1].text


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # so says the SDK of the route
def test_sdk_translation(sdk: openai.OpenAI, clip: Path) -> None:
    answer = sdk.audio.translations.create(model="whisper-1", file=clip)
    assert answer.text.startswith("translate:")
    verbose = sdk.audio.translations.create(model="m", file=clip, response_format="verbose_json")
    assert verbose.duration == 0.5
    text = sdk.audio.translations.create(model="m", file=clip, response_format="text")
    assert str(text).strip() == answer.text


def test_sdk_models(sdk: openai.OpenAI, model: Path) -> None:
    assert [item.id for item in sdk.models.list()] == [model.name]
    assert sdk.models.retrieve(model.name).id == model.name


def test_sdk_errors(sdk: openai.OpenAI, clip: Path) -> None:
    with pytest.raises(openai.BadRequestError, match="Only 'json' response_format") as caught:
        sdk.audio.transcriptions.create(model="m", file=clip, response_format="srt")
    assert caught.value.param == "response_format"
    assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.InternalServerError, match="audio model inference failed"):
        sdk.audio.speech.create(model="m", voice="alloy", input="RAISE")


def curl(*arguments: str, cwd: Path) -> bytes:
    return subprocess.run(
        [CURL or "curl", "-s", *arguments], cwd=cwd, capture_output=True, check=True
    ).stdout


@needs_curl
def test_curl_speech(service: Service, tmp_path: Path) -> None:
    curl(
        *("-X", "POST", f"{service.url}/v1/audio/speech", "-H", "Content-Type: application/json"),
        *("-d", '{"model":"my-tts","input":"Hello world"}', "--output", "speech.wav"),
        cwd=tmp_path,
    )
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getnframes() > 0


@needs_curl
def test_curl_transcription(service: Service, clip: Path) -> None:
    answer = curl(
        *("-X", "POST", f"{service.url}/v1/audio/transcriptions", "-F", f"file=@{clip.name}"),
        *("-F", "model=my-stt", "-F", "language=en", "-F", "response_format=json"),
        cwd=clip.parent,
    )
    assert answer.startswith(b'{"type":"transcript.text.done","text":"transcribe:')


@needs_curl
def test_curl_upload_that_is_too_large(service: Service, tmp_path: Path) -> None:
    (tmp_path / "large.wav").write_bytes(bytes(30 << 20))
    answer = curl(f"{service.url}/v1/audio/transcriptions", "-F", "file=@large.wav", cwd=tmp_path)
    assert b'"message":"Request body too large."' in answer
    chunked = ("-H", "Transfer-Encoding: chunked")
    answer = curl(
        f"{service.url}/v1/audio/transcriptions", *chunked, "-F", "file=@large.wav", cwd=tmp_path
    )
    assert b'"message":"Request body too large."' in answer
