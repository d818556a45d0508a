"""The OpenAPI document is true: a tool that believes it finds no answer that it does not foretell."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from app.api.main import create_app
from app.settings import Settings
from tests.harness import Service

# Rules of single fields go beyond what a schema says (a text must have something to pronounce),
# and forms are more lenient than one says (a repeated field counts as absent).
BEYOND_SCHEMAS = [checks.positive_data_acceptance, checks.negative_data_rejection]
ENVELOPE = {"$ref": "#/components/schemas/ErrorEnvelope"}


DOCUMENT = schemathesis.openapi.from_dict(create_app(Settings()).openapi())
OPERATIONS = {found.ok().label: found.ok() for found in DOCUMENT.get_all_operations()}


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_as_documented(service: Service, label: str, mode: GenerationMode) -> None:
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def call(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=service.url, excluded_checks=BEYOND_SCHEMAS)

    try:
        call()
    except Unsatisfiable:
        pytest.skip("it takes nothing that could be wrong")


def operations(client: httpx2.Client) -> dict[str, Any]:
    paths = client.get("/openapi.json").json()["paths"]
    return {
        f"{method} {path}": operation
        for path, item in paths.items()
        for method, operation in item.items()
    }


def test_every_operation_documents_the_error_envelope(client: httpx2.Client) -> None:
    for name, operation in operations(client).items():
        for status, answer in operation["responses"].items():
            if status == "default" or status >= "400":
                shown = answer.get("content", {}).get("application/json", {}).get("schema")
                assert shown == ENVELOPE, (name, status)
        assert "default" in operation["responses"], name


def test_bodies_of_the_audio_routes_are_documented(client: httpx2.Client) -> None:
    found = operations(client)
    for route in ("transcriptions", "translations"):
        content = found[f"post /v1/audio/{route}"]["requestBody"]["content"]
        form = content["multipart/form-data"]["schema"]
        assert form["required"] == ["file"]
        assert form["properties"]["file"]["format"] == "binary"
    speech = found["post /v1/audio/speech"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(speech["required"]) == {"model", "input"}


@pytest.mark.parametrize("status", ["400", "408", "413", "500", "501", "503", "504"])
def test_errors_of_the_audio_routes_are_documented(client: httpx2.Client, status: str) -> None:
    for route in ("transcriptions", "translations", "speech"):
        assert status in operations(client)[f"post /v1/audio/{route}"]["responses"]
