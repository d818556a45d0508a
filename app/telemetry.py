"""Traces, for who wants them: off unless the standard ``OTEL_…`` variables name where they go.

All code speaks to OpenTelemetry's interface, which does nothing until ``set_up`` has put its SDK
(the extra ``otel``) behind it. Attributes are ids, names, counts and times: never what was said,
nor an exception's own words, which may quote it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PREFIX = "voxqueue."  # of every attribute that is this service's own
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER = "OTEL_TRACES_EXPORTER"
HEADER = "traceparent"

_tracer = trace.get_tracer("voxqueue")
_propagator = TraceContextTextMapPropagator()


class CannotTrace(RuntimeError):
    """Traces are asked for, in a way that this installation cannot do."""


def is_wanted() -> bool:
    """Raises CannotTrace, which says what to do, for what only other exporters can."""
    exporter = os.environ.get(EXPORTER, "")
    named = any(os.environ.get(name) for name in ENDPOINTS)
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    if exporter not in ("", "otlp"):
        raise CannotTrace(f"{EXPORTER} is {exporter!r}: use otlp or none")
    protocol = next(filter(None, map(os.environ.get, PROTOCOLS)), "http/protobuf")
    if (named or exporter) and protocol != "http/protobuf":
        raise CannotTrace(f"{PROTOCOLS[1]} is {protocol!r}: use http/protobuf")
    return named or bool(exporter)


def require() -> None:
    """Raise CannotTrace, which says what to do, unless traces are off or can be made."""
    if is_wanted():
        _sdk()


def set_up(role: str) -> None:
    """Trace this process from now on, if that is wanted. Raises CannotTrace."""
    if not is_wanted():
        return
    sdk, resources, export, otlp = _sdk()
    given = resources.OTELResourceDetector().detect().attributes  # an operator's own come first
    resource = resources.Resource.create({"service.name": f"voxqueue-{role}", **given})
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def _sdk() -> tuple[Any, Any, Any, Any]:
    try:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.trace import export
    except ImportError as error:
        raise CannotTrace(
            f"{EXPORTER} or an endpoint for it is set, and OpenTelemetry is not installed: "
            "run `pip install 'voxqueue[otel]'`, or unset it"
        ) from error
    return sdk, resources, export, trace_exporter


def traceparent() -> str:
    """Where this moment belongs, to be kept with the job; empty without a trace."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(HEADER, "")


@contextmanager
def span(name: str, *, began: int | None = None, **attributes: Any) -> Iterator[Span]:
    """A part of what this thread is doing; ``began``: in nanoseconds, when not now."""
    with _tracer.start_as_current_span(
        name,
        start_time=began,
        attributes=_own(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        yield made


@contextmanager
def work(name: str, *, parent: str, began: int, **attributes: Any) -> Iterator[Span]:
    """An attempt at a job: a part of the request that it came with, however much later."""
    with _tracer.start_as_current_span(
        name,
        context=_propagator.extract({HEADER: parent}) if parent else None,
        kind=SpanKind.CONSUMER,
        start_time=began,
        attributes=_own(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        yield made


def note(**attributes: Any) -> None:
    """Add to the span that is open."""
    trace.get_current_span().set_attributes(_own(attributes))


def failed(code: str | None) -> None:
    """The span that is open ends in the error of this code."""
    current = trace.get_current_span()
    current.set_attribute("error.type", code or "error")
    current.set_status(StatusCode.ERROR)


def _own(attributes: dict[str, Any]) -> dict[str, Any]:
    return {PREFIX + name: value for name, value in attributes.items() if value is not None}
