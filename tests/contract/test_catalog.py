"""What is loaded: models in OpenAI's shape, and voices; and a result's bytes by range."""

from __future__ import annotations

from pathlib import Path

import httpx2


def test_models_list_has_openai_s_shape(client: httpx2.Client, model: Path) -> None:
    answer = client.get("/v1/models").json()
    assert answer["object"] == "list"
    (only,) = answer["data"]
    assert (only["id"], only["object"], only["owned_by"]) == (model.name, "model", "fake")
    assert isinstance(only["created"], int)
    assert sorted(only["capabilities"]) == ["stt", "tts"]


def test_model_by_id(client: httpx2.Client, model: Path) -> None:
    listed = client.get("/v1/models").json()["data"][0]
    assert client.get(f"/v1/models/{model.name}").json() == listed


def test_model_that_is_not_loaded_is_404(client: httpx2.Client) -> None:
    for name in ("nobody", "openai/whisper", "%00", "a%2Fb"):
        answer = client.get(f"/v1/models/{name}")
        assert answer.status_code == 404
        assert answer.json()["error"]["param"] == "model"


def test_voices(client: httpx2.Client) -> None:
    answer = client.get("/v1/audio/voices").json()
    assert answer == {"object": "list", "voices": ["af_heart", "am_adam"]}


def test_range_beyond_the_speech_is_416_in_the_envelope(client: httpx2.Client) -> None:
    headers = {"Prefer": "respond-async, wait=30"}
    body = {"model": "m", "input": "Hello"}
    assert client.post("/v1/audio/speech", json=body, headers=headers).status_code == 200
    result = client.get("/v1/jobs?limit=1").json()["data"][0]["links"]["result"]
    answer = client.get(result, headers={"Range": "bytes=100000000-"})
    assert answer.status_code == 416
    assert answer.headers["content-range"].startswith("bytes */")
    assert answer.json()["error"]["type"] == "invalid_request_error"
