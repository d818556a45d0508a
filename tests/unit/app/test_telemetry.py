from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import telemetry
from app.cli import cli
from app.telemetry import CannotTrace
from tests.harness import ROOT

ENDPOINT = "http://127.0.0.1:4318"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*telemetry.ENDPOINTS, *telemetry.PROTOCOLS, telemetry.EXPORTER):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, False),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)
def test_the_standard_variables_say_whether_to_trace(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, wanted: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert telemetry.is_wanted() is wanted


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_what_cannot_be_done_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT)
    monkeypatch.setenv(name, value)
    with pytest.raises(CannotTrace, match=f"{name} is '{value}': use"):
        telemetry.require()


@pytest.mark.parametrize("command", ["serve", "worker", "api"])
def test_a_missing_extra_ends_the_command_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT)
    monkeypatch.setenv("VOXQUEUE_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    # It would bind the loggers of this process to the runner's stderr, which ends with the call.
    monkeypatch.setattr("app.cli.set_up_logging", lambda _settings: None)
    CliRunner().invoke(cli, ["migrate", "--data-dir", str(tmp_path)])
    told = CliRunner().invoke(cli, [command, "--data-dir", str(tmp_path)])
    assert told.exit_code == 1
    assert "run `pip install 'voxqueue[otel]'`" in told.stderr
    assert len(told.stderr.splitlines()) == 1


# redis-py loads the SDK of metrics wherever it finds it.
def test_nothing_is_loaded_and_nothing_kept_where_traces_are_off() -> None:
    asked = """
import sys
import app.api.server, tasks.worker
from app import telemetry
telemetry.set_up("api")
with telemetry.span("one"):
    assert telemetry.traceparent() == ""
print([name for name in sys.modules if name.startswith(
    ("opentelemetry.sdk.trace", "opentelemetry.exporter", "google.protobuf"))])
"""
    command = [sys.executable, "-c", asked]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == ("[]", "")
