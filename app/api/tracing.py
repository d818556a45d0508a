"""What FastAPI tells a trace of a request: one span, once app/telemetry.py has set traces up.

Its logs would hold the words of exceptions, and so what callers sent; they stay off.
"""

from __future__ import annotations

from fastapi.telemetry import TelemetryConfig

PROBES = frozenset({"/health", "/ready", "/metrics"})  # asked every few seconds, of no interest

TELEMETRY: TelemetryConfig = {
    "auto_configure": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "exclude": lambda scope: scope["path"] in PROBES,
}
