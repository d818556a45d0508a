"""The contract with the real models: Whisper and Kokoro behind the running service."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path

import httpx2
import jiwer
import numpy as np
import pytest
import soundfile

from tests.contract.wire import form, part
from tests.harness import Service

pytestmark = pytest.mark.weights

TRANSCRIPTIONS = "/v1/audio/transcriptions"
JFK = (
    "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country"
)
clean = jiwer.Compose([jiwer.ToLowerCase(), jiwer.RemovePunctuation(), jiwer.Strip()])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, real_models: None) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("data"))
    yield service
    assert service.stop() == 0


def hear(real: Service, audio: bytes, *fields: bytes, route: str = TRANSCRIPTIONS) -> str:
    answer = real.client.post(route, **form(part("file", audio, "a.bin"), *fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def errors(heard: str, said: str) -> float:
    return jiwer.wer(clean(said), clean(heard))


def say(real: Service, text: str, **more: object) -> httpx2.Response:
    return real.client.post("/v1/audio/speech", json={"model": "m", "input": text, **more})


def converted(file: Path, **options: object) -> bytes:
    samples, rate = soundfile.read(file, dtype="float32")
    out = io.BytesIO()
    soundfile.write(out, samples, rate, **options)
    return out.getvalue()


@pytest.mark.parametrize("name", ["jfk.wav", "jfk.flac", "jfk.mp3"])
def test_whisper_takes_wav_flac_and_mp3(real: Service, speech_dir: Path, name: str) -> None:
    assert errors(hear(real, (speech_dir / name).read_bytes()), JFK) < 0.1


@pytest.mark.parametrize("subtype", ["PCM_24", "PCM_U8", "FLOAT", "ALAW", "ULAW"])
def test_whisper_takes_every_wav_encoding(real: Service, speech_dir: Path, subtype: str) -> None:
    clip = speech_dir / "librivox_0880.wav"
    audio = converted(clip, format="WAV", subtype=subtype)
    assert errors(hear(real, audio), hear(real, clip.read_bytes())) < 0.3


@pytest.mark.parametrize("container", ["WAVEX", "RF64"])
def test_whisper_takes_every_wav_header(real: Service, speech_dir: Path, container: str) -> None:
    audio = converted(speech_dir / "jfk.wav", format=container, subtype="PCM_16")
    assert errors(hear(real, audio), JFK) < 0.1


def test_truncated_wav_is_clamped_and_transcribed(real: Service, speech_dir: Path) -> None:
    audio = (speech_dir / "jfk.wav").read_bytes()
    assert "fellow americans" in clean(hear(real, audio[: len(audio) // 2]))


def test_aiff_is_refused(real: Service, speech_dir: Path) -> None:
    audio = (speech_dir / "french.aiff").read_bytes()
    answer = real.client.post(TRANSCRIPTIONS, **form(part("file", audio, "a.wav")))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("not a RIFF/WAVE file")


@pytest.mark.parametrize(
    "name", ["bad_no_samples", "bad_no_data_chunk", "bad_lying_chunk", "bad_absurd_rate"]
)
def test_broken_wav_is_empty_or_400(real: Service, speech_dir: Path, name: str) -> None:
    audio = (speech_dir / f"{name}.wav").read_bytes()
    answer = real.client.post(TRANSCRIPTIONS, **form(part("file", audio, "a.wav")))
    if answer.status_code == 200:
        assert answer.json()["text"] == ""
    else:
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


def test_silence_and_a_tone_are_no_error(real: Service) -> None:
    out = io.BytesIO()
    soundfile.write(out, np.zeros(12 * 16_000), 16_000, format="WAV")
    assert hear(real, out.getvalue()) == ""
    tone = io.BytesIO()
    soundfile.write(tone, np.sin(np.arange(48_000) * 0.17), 16_000, format="WAV")
    hear(real, tone.getvalue())


def test_translation_is_english_and_names_the_language(real: Service, speech_dir: Path) -> None:
    samples, rate = soundfile.read(speech_dir / "french.aiff")
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV")
    fields = part("response_format", "verbose_json")
    answer = real.client.post(
        "/v1/audio/translations", **form(part("file", out.getvalue(), "a.wav"), fields)
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["language"] == "fr"
    assert found["duration"] == pytest.approx(len(samples) / rate, abs=0.05)
    assert {"the", "dictation", "number", "one", "first"} & set(clean(found["text"]).split())


def test_stream_is_one_delta_with_the_whole_text(real: Service, speech_dir: Path) -> None:
    audio = (speech_dir / "jfk.wav").read_bytes()
    answer = real.client.post(
        TRANSCRIPTIONS, **form(part("file", audio, "a.wav"), part("stream", "true"))
    )
    frames = answer.text.split("\n\n")
    assert frames[2:] == ["data: [DONE]", ""]
    delta, done = (json.loads(frame.removeprefix("data: ")) for frame in frames[:2])
    assert delta["delta"] == done["text"] == done["text"].strip()
    assert errors(done["text"], JFK) < 0.1


def test_whisper_ignores_the_prompt(real: Service, speech_dir: Path) -> None:
    audio = (speech_dir / "librivox_0880.wav").read_bytes()
    prompt = part("prompt", "HE WAS NOT AN ILL DISPOSED YOUNG MAN. " * 5)
    assert hear(real, audio, prompt) == hear(real, audio)


def test_unknown_language_is_no_500(real: Service, speech_dir: Path) -> None:
    audio = (speech_dir / "librivox_0880.wav").read_bytes()
    for language in ("zz", "English", "\x00", "EN"):
        answer = real.client.post(
            TRANSCRIPTIONS, **form(part("file", audio, "a.wav"), part("language", language))
        )
        assert answer.status_code in (200, 400), answer.text


def test_speech_is_heard_again(real: Service) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    answer = say(real, text)
    assert answer.status_code == 200, answer.text
    with wave.open(io.BytesIO(answer.content)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert len(answer.content) == 44 + 2 * file.getnframes()
    assert errors(hear(real, answer.content), text) < 0.15


def test_unknown_voice_is_the_default_voice(real: Service) -> None:
    default = say(real, "Good morning.").content
    assert say(real, "Good morning.", voice="nobody").content == default
    assert say(real, "Good morning.", voice="af_heart").content == default
    assert say(real, "Good morning.", voice="am_adam").content != default


@pytest.mark.parametrize("speed", [1e-9, 0.25, 4.0, 1e9])
def test_extreme_speed_stays_in_bounds(real: Service, speed: float) -> None:
    assert say(real, "Good morning to you all.", speed=speed).status_code == 200


@pytest.mark.parametrize("text", ["...", "\U0001f600", "\x00", "?!", "\ufffd"])
def test_nothing_pronounceable_is_400(real: Service, text: str) -> None:
    answer = say(real, text)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "no phonemes for the input text"


def test_odd_text_is_no_500(real: Service) -> None:
    for text in ("a\ufffdb", "[x](http://example.com)", "9" * 40, "a" * 60, "\u0434\u0430"):
        assert say(real, text).status_code in (200, 400), text


def test_models_and_voices(real: Service) -> None:
    models = {item["id"]: item for item in real.client.get("/v1/models").json()["data"]}
    assert models["whisper-base"]["owned_by"] == "whisper"
    assert models["kokoro-82m"]["capabilities"] == ["tts"]
    voices = real.client.get("/v1/audio/voices").json()["voices"]
    assert {"af_heart", "bm_lewis"} <= set(voices)
