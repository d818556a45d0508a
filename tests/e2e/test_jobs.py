"""Jobs as callers see them: asking, joining, waiting, leaving, fetching."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import openai
import pytest
import soundfile

from app.states import JobState
from tests.cluster import Cluster, Front, cluster, holding, job_id, recording
from tests.harness import calls, eventually


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("jobs"), model) as made:
        made.start_worker()
        made.start_front()
        made.start_front()
        yield made


@pytest.fixture(scope="module")
def door(house: Cluster) -> Front:
    return house.fronts[0]


@pytest.fixture(scope="module")
def side_door(house: Cluster) -> Front:
    return house.fronts[1]


def test_an_asynchronous_request_is_a_job_with_an_address(house: Cluster, door: Front) -> None:
    with holding(house.model):
        answer = door.say("later")
        job = job_id(answer)
        assert answer.headers["location"] == f"/v1/jobs/{job}"
        assert answer.headers["preference-applied"] == "respond-async"
        assert int(answer.headers["retry-after"]) > 0
        early = door.client.get(f"/v1/jobs/{job}/result")
        assert (early.status_code, "retry-after" in early.headers) == (409, True)
    assert house.wait(job).state is JobState.SUCCEEDED
    shown = door.client.get(f"/v1/jobs/{job}").json()
    assert (shown["status"], shown["progress"], shown["attempts"]) == ("succeeded", 1.0, 1)
    direct = door.client.post("/v1/audio/speech", json={"model": "m", "input": "later"})
    assert door.client.get(f"/v1/jobs/{job}/result").content == direct.content


def test_respond_async_with_wait_answers_the_result_when_it_is_in_time(door: Front) -> None:
    answer = door.say("quick", prefer="respond-async, wait=30")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/wav")


def test_wait_alone_shortens_the_limit_and_the_job_is_kept(house: Cluster, door: Front) -> None:
    with holding(house.model):
        answer = door.say("too slow", prefer="wait=0")
        assert answer.status_code == 504
        assert answer.json()["error"]["type"] == "server_timeout"
    job = answer.headers["location"].rpartition("/")[2]
    assert house.wait(job).state is JobState.SUCCEEDED
    assert door.client.get(f"{answer.headers['location']}/result").status_code == 200


def test_who_looks_at_a_job_may_wait_for_its_end(house: Cluster, door: Front) -> None:
    with holding(house.model):
        address = f"/v1/jobs/{job_id(door.say('followed'))}"
        early = door.client.get(address, headers={"Prefer": "wait=1"})
        assert early.json()["status"] in ("queued", "running")
    late = door.client.get(address, headers={"Prefer": "wait=60"})
    assert late.json()["status"] == "succeeded"
    none = door.client.get("/v1/jobs/job_" + 32 * "0", headers={"Prefer": "wait=60"})
    assert none.status_code == 404


def test_queue_position_and_estimate(house: Cluster, door: Front) -> None:
    house.wait(job_id(door.say("to measure by")))
    with holding(house.model):
        first = job_id(door.say("x" * 10))
        eventually(lambda: house.job(first).state is JobState.RUNNING)
        queued = [job_id(door.say("y" * 10)) for _ in range(2)]
        views = [door.client.get(f"/v1/jobs/{job}").json() for job in queued]
    assert [view["queue_position"] for view in views] == [1, 2]
    assert 0 <= views[0]["estimated_wait_seconds"] <= views[1]["estimated_wait_seconds"]
    for job in (first, *queued):
        house.wait(job)


def test_the_list_is_filtered_and_paged(house: Cluster, door: Front) -> None:
    made = [job_id(door.say(f"page {number}")) for number in range(5)]
    for job in made:
        house.wait(job)
    query = {"status": "succeeded", "kind": "speech", "limit": 2}
    first = door.client.get("/v1/jobs", params=query).json()
    second = door.client.get("/v1/jobs", params={**query, "after": first["last_id"]}).json()
    assert [job["id"] for job in first["data"] + second["data"]] == made[:0:-1]
    assert first["has_more"]
    assert door.client.get("/v1/jobs", params={"batch": "batch_none"}).json()["data"] == []
    assert door.client.get("/v1/jobs", params={"status": "lost"}).status_code == 422
    unknown = f"job_{'0' * 32}"
    assert door.client.get("/v1/jobs", params={"after": unknown}).status_code == 404


def test_a_transcript_in_every_format(house: Cluster, door: Front) -> None:
    job = job_id(door.hear(recording(65), data={"timestamps": "true"}))
    assert house.wait(job).options["timestamps"] is True
    found = {
        name: door.client.get(f"/v1/jobs/{job}/result", params={"format": name})
        for name in ("json", "text", "verbose_json", "srt", "vtt", "tsv")
    }
    assert {answer.status_code for answer in found.values()} == {200}
    text = found["text"].text
    assert found["json"].json()["text"] == text
    assert found["verbose_json"].json()["duration"] == 65.0
    assert len(found["verbose_json"].json()["segments"]) == 3
    assert found["srt"].text.startswith("1\n00:00:00,000 --> ")
    assert found["vtt"].text.startswith("WEBVTT\n")
    assert found["tsv"].text.startswith("start\tend\ttext\n")
    plain = door.client.get(f"/v1/jobs/{job}/result").json()
    assert (plain["type"], plain["text"]) == ("transcript.text.done", text)
    assert door.client.get(f"/v1/jobs/{job}/result?format=docx").status_code == 422


def test_speech_in_parts_and_only_when_it_has_changed(house: Cluster, door: Front) -> None:
    job = job_id(door.say("A sentence to be fetched in parts."))
    done = house.wait(job)
    path = f"/v1/jobs/{job}/result"

    def get(**headers: str) -> httpx2.Response:
        return door.client.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    whole = get()
    tag = whole.headers["etag"]
    assert tag == f'"{done.output_sha256}"'
    assert whole.headers["accept-ranges"] == "bytes"
    size = len(whole.content)
    part = get(range="bytes=10-19")
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{size}"
    assert get(range="bytes=-7").content == whole.content[-7:]
    assert get(range=f"bytes={size - 3}-").content == whole.content[-3:]
    assert get(range=f"bytes=5-{size + 99}").content == whole.content[5:]
    beyond = get(range=f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    assert get(range="bytes=0-1,4-5").status_code == 200
    assert get(range="lines=1-2").status_code == 200
    assert get(range="bytes=0-1", if_range=tag).status_code == 206
    assert get(range="bytes=0-1", if_range='"other"').status_code == 200
    unchanged = get(if_none_match=f'"x", W/{tag}')
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    head = door.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(size)
    assert door.client.get(path, params={"format": "srt"}).status_code == 400


def test_a_deleted_result_is_gone(house: Cluster, door: Front) -> None:
    job = job_id(door.say("to be deleted"))
    done = house.wait(job)
    house.store.delete(str(done.output_key))
    assert door.client.get(f"/v1/jobs/{job}/result").status_code == 410


def test_a_failed_job_answers_its_own_error(house: Cluster, door: Front) -> None:
    job = job_id(door.say("RAISE"))
    assert house.wait(job).state is JobState.FAILED
    answer = door.client.get(f"/v1/jobs/{job}/result")
    assert answer.status_code == 500
    assert answer.json()["error"] == door.client.get(f"/v1/jobs/{job}").json()["error"]


def test_one_key_is_one_job_across_front_doors(
    house: Cluster, door: Front, side_door: Front
) -> None:
    audio = recording(2, pitch=0.7)
    before = len(calls(house.model))
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda number: (door, side_door)[number % 2].hear(
                    audio, prefer="wait=30", **{"Idempotency-Key": "race"}
                ),
                range(8),
            )
        )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(calls(house.model)) - before == 1
    other = side_door.hear(recording(3), **{"Idempotency-Key": "race"})
    assert (other.status_code, other.json()["error"]["param"]) == (422, "Idempotency-Key")
    again = side_door.hear(audio, **{"Idempotency-Key": "race"})
    assert again.status_code == 202
    assert again.json()["status"] == "succeeded"
    assert side_door.hear(audio, **{"Idempotency-Key": "x" * 256}).status_code == 400


def test_a_stock_client_s_retries_join_the_running_job(house: Cluster, door: Front) -> None:
    before = len(calls(house.model))
    client = openai.OpenAI(base_url=f"{door.url}/v1", api_key="none", timeout=1.0, max_retries=6)
    hold = house.model / "hold"
    hold.touch()

    def let_go(request: httpx2.Request) -> None:
        if request.headers.get("x-stainless-retry-count") == "2":
            hold.unlink(missing_ok=True)

    client._client.event_hooks = {"request": [let_go], "response": []}
    with client:
        speech = client.audio.speech.create(
            model="m",
            voice="af_heart",
            input="joined",
            response_format="wav",
            extra_headers={"Idempotency-Key": "sdk"},
        )
    assert speech.content[:4] == b"RIFF"
    assert calls(house.model)[before:] == ["say joined"]


def test_who_hangs_up_cancels_what_only_they_wanted(house: Cluster, door: Front) -> None:
    with holding(house.model):
        busy = job_id(door.say("in the way"))
        eventually(lambda: house.job(busy).state is JobState.RUNNING)
        for headers in ({}, {"Idempotency-Key": "kept"}):
            with pytest.raises(httpx2.ReadTimeout):
                door.client.post(
                    "/v1/audio/speech",
                    json={"model": "m", "input": f"hung up {len(headers)}"},
                    headers=headers,
                    timeout=0.5,
                )
        newest = door.client.get("/v1/jobs", params={"limit": 2}).json()["data"]
        kept, dropped = (entry["id"] for entry in newest)
        eventually(lambda: house.job(dropped).state is JobState.CANCELLED)
    assert house.wait(kept).state is JobState.SUCCEEDED


def test_a_broker_that_is_away_refuses_who_waits_and_keeps_what_can_wait(
    house: Cluster, door: Front
) -> None:
    house.broker.stop()
    refused = door.say("now or never", prefer="wait=5")
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "server_busy")
    job = job_id(door.say("when it is back"))
    house.start_broker()
    assert house.wait(job).state is JobState.SUCCEEDED


@pytest.mark.one_machine("a directory that is none")
def test_a_full_store_refuses_uploads_in_the_envelope(house: Cluster, door: Front) -> None:
    inputs = house.settings.storage_dir / "in"
    aside = inputs.with_name("aside")
    inputs.rename(aside)
    inputs.write_text("no directory")
    try:
        answer = door.hear(recording(2, pitch=0.8))
    finally:
        inputs.unlink()
        aside.rename(inputs)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers


def test_speech_of_a_job_is_a_wave_file(house: Cluster, door: Front, tmp_path: Path) -> None:
    job = job_id(door.say("One. Two. Three."))
    house.wait(job)
    file = tmp_path / "speech.wav"
    file.write_bytes(door.client.get(f"/v1/jobs/{job}/result").content)
    assert soundfile.info(file).frames > 0
