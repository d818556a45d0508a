"""contract.md, "Bounds that protect the service" and "Order of checks"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.conftest import FrontDoor
from tests.contract.wire import form, part, recording
from tests.harness import Service, calls, eventually

SPEECH = "/v1/audio/speech"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
TRANSLATIONS = "/v1/audio/translations"
FILE = part("file", recording(), "a.wav")
SETTLED_SECONDS = 60


def say(url: str, text: str, **headers: str) -> httpx2.Response:
    return httpx2.post(
        f"{url}{SPEECH}", json={"model": "m", "input": text}, headers=headers, timeout=120
    )


def error(answer: httpx2.Response) -> tuple[int, str, str]:
    found = answer.json()["error"]
    return answer.status_code, found["type"], found["message"]


@pytest.fixture(scope="module")
def empty(front_door: Callable[..., FrontDoor]) -> FrontDoor:
    """A service for which no model is configured."""
    return front_door(stt_model="", tts_model="")


@pytest.fixture(scope="module")
def starting(front_door: Callable[..., FrontDoor]) -> FrontDoor:
    """A service whose models are configured, but whose workers are not up."""
    return front_door(stt_model="whisper-base", tts_model="kokoro-82m")


def flood(urls: list[str], hold: Path, count: int, *, refused: int) -> list[httpx2.Response]:
    """So many calls at once; the model ends none before the last one has been let in or refused."""
    answers: list[httpx2.Response] = []
    with ThreadPoolExecutor(count) as pool:
        for number in range(count):
            future = pool.submit(say, urls[number % len(urls)], f"Number {number}")
            future.add_done_callback(lambda done: answers.append(done.result()))
        eventually(lambda: len(answers) >= refused, seconds=SETTLED_SECONDS)
        hold.unlink()
    return answers


def served_and_refused(answers: list[httpx2.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


def test_queue_of_30_calls_exactly_9_are_served(service: Service, hold: Path, model: Path) -> None:
    before = len(calls(model))
    answers = flood([service.url], hold, 30, refused=21)
    assert served_and_refused(answers) == {200: 9, 503: 21}
    assert len(calls(model)) == before + 9
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert error(busy) == (503, "server_busy", "All slots are busy. Please try again later.")
    assert int(busy.headers["retry-after"]) > 0


def test_queue_is_counted_across_front_doors(
    service: Service, hold: Path, front_door: Callable[..., FrontDoor], model: Path
) -> None:
    shared = {"data_dir": service.data, "stt_model": str(model), "tts_model": str(model)}
    doors = [front_door(**shared), front_door(**shared)]
    answers = flood([service.url, *(door.url for door in doors)], hold, 30, refused=21)
    assert served_and_refused(answers) == {200: 9, 503: 21}


def test_queue_depth_zero_means_one(
    service: Service, hold: Path, front_door: Callable[..., FrontDoor], model: Path
) -> None:
    changes = {"stt_model": str(model), "tts_model": str(model), "audio_queue_depth": 0}
    door = front_door(data_dir=service.data, **changes)
    answers = flood([door.url], hold, 6, refused=4)
    assert served_and_refused(answers) == {200: 2, 503: 4}


def test_queue_refuses_no_idle_slot_after_a_flood(service: Service, hold: Path) -> None:
    flood([service.url], hold, 12, refused=3)
    assert say(service.url, "After the flood").status_code == 200


def test_queue_full_is_told_after_400(service: Service, hold: Path) -> None:
    answers: list[httpx2.Response] = []
    with ThreadPoolExecutor(12) as pool:
        for number in range(12):
            future = pool.submit(say, service.url, f"Wait {number}")
            future.add_done_callback(lambda done: answers.append(done.result()))
        eventually(lambda: len(answers) >= 3, seconds=SETTLED_SECONDS)
        assert say(service.url, " ").status_code == 400
        junk = part("file", b"junk", "a.wav")
        assert service.client.post(TRANSCRIPTIONS, **form(junk)).status_code == 400
        assert say(service.url, "One more").status_code == 503
        hold.unlink()


def test_timeout_is_504_and_its_location_then_answers(
    service: Service, hold: Path, front_door: Callable[..., FrontDoor], model: Path
) -> None:
    changes = {"stt_model": str(model), "tts_model": str(model)}
    door = front_door(data_dir=service.data, audio_request_timeout_seconds=0.3, **changes)
    answer = say(door.url, "Take your time")
    assert error(answer) == (
        504,
        "server_timeout",
        "Audio request timed out. Please try again later.",
    )
    location = answer.headers["location"]
    assert service.client.get(f"{location}/result").status_code == 409
    hold.unlink()
    eventually(lambda: service.client.get(location).json()["status"] == "succeeded")
    assert (
        service.client.get(f"{location}/result").content == say(door.url, "Take your time").content
    )


def test_timeout_zero_means_120(front_door: Callable[..., FrontDoor], service: Service) -> None:
    door = front_door(
        data_dir=service.data,
        audio_request_timeout_seconds=0,
        stt_model=str(service.data),
        tts_model=str(service.data),
    )
    assert say(door.url, "Not at once").status_code == 200


def test_501_by_capability(empty: FrontDoor) -> None:
    answer = empty.client.post(TRANSCRIPTIONS, **form(FILE))
    message = "The current model does not support audio input."
    assert error(answer) == (501, "not_supported_error", message)
    answer = empty.client.post(TRANSLATIONS, **form(FILE))
    assert error(answer) == (501, "not_implemented", "audio model kind not loaded: stt")
    assert error(say(empty.url, "Hello")) == (
        501,
        "not_implemented",
        "audio model kind not loaded: tts",
    )


def test_503_while_a_configured_model_has_no_live_worker(starting: FrontDoor) -> None:
    for answer in (
        starting.client.post(TRANSCRIPTIONS, **form(FILE)),
        starting.client.post(TRANSLATIONS, **form(FILE)),
        say(starting.url, "Hello"),
    ):
        assert error(answer)[:2] == (503, "server_busy")
        assert "No live worker for" in error(answer)[2]
        assert int(answer.headers["retry-after"]) > 0


def test_order_malformed_is_400_with_no_model_loaded(empty: FrontDoor) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for route in (TRANSCRIPTIONS, TRANSLATIONS):
        assert empty.client.post(route, content=b"junk", headers=headers).status_code == 400
    assert empty.client.post(SPEECH, content=b"{}").status_code == 415
    assert empty.client.post(SPEECH, json={}).status_code == 422


def test_order_file_comes_before_capability(empty: FrontDoor) -> None:
    for route in (TRANSCRIPTIONS, TRANSLATIONS):
        assert empty.client.post(route, **form(part("model", "m"))).status_code == 400


def test_order_capability_comes_before_field_checks(empty: FrontDoor, service: Service) -> None:
    wrong: dict[str, Any] = {"model": "m", "input": "x", "response_format": "mp3"}
    assert empty.client.post(SPEECH, json=wrong).status_code == 501
    assert service.client.post(SPEECH, json=wrong).status_code == 400
    for field in (part("response_format", "nope"), part("temperature", "hot")):
        for route in (TRANSCRIPTIONS, TRANSLATIONS):
            assert empty.client.post(route, **form(FILE, field)).status_code == 501
            assert service.client.post(route, **form(FILE, field)).status_code == 400


def test_order_capability_comes_before_container_bounds(empty: FrontDoor) -> None:
    junk = form(part("file", b"junk", "a.wav"))
    assert empty.client.post(TRANSCRIPTIONS, **junk).status_code == 501


def test_a_crash_of_the_worker_is_one_request_s_error(service: Service) -> None:
    assert say(service.url, "RAISE").status_code == 500
    assert say(service.url, "And on").status_code == 200


def test_parallel_calls_with_one_filename_are_not_mixed_up(service: Service) -> None:
    """More than the queue holds are not let in at once, so eight at a time."""
    texts = [f"Speaker {number} says {'so ' * number}" for number in range(10)]
    sounds = [recording(0.3 + number / 10, step=0.05 + number / 50) for number in range(10)]
    alone = [
        (say(service.url, text).content, hear(service.url, sound))
        for text, sound in zip(texts, sounds, strict=True)
    ]
    with ThreadPoolExecutor(9) as pool:
        spoken = pool.map(lambda text: say(service.url, text).content, texts)
        together = list(
            zip(spoken, pool.map(lambda sound: hear(service.url, sound), sounds), strict=True)
        )
    assert together == alone
    assert len({text for _, text in together}) == 10


def hear(url: str, audio: bytes) -> str:
    answer = httpx2.post(
        f"{url}{TRANSCRIPTIONS}", **form(part("file", audio, "same.wav")), timeout=60
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]
