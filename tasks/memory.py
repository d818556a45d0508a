"""What the worker's memory is doing, looked at between two jobs on the thread that owns MLX.

A worker that has grown past its limit drains and ends, and its supervisor starts it anew.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import psutil
import structlog

from tasks import stopping
from tasks.runner import Runner

log = structlog.get_logger()


def look_after(runner: Runner) -> None:
    """Report the memory, give back what MLX only keeps, and stop the worker if it is too much."""
    settings = runner.services.settings
    used = measure(settings.mlx_cache_bytes)
    runner.worker = replace(runner.worker, memory=used)
    if 0 < settings.worker_max_memory_bytes < used["resident"]:
        log.warning("worker_over_memory", limit=settings.worker_max_memory_bytes, **used)
        stopping.begin_anew(runner)


def measure(cache_bytes: int) -> dict[str, int]:
    """Bytes by what holds them, after what nobody uses has been given back."""
    used = _mlx(cache_bytes) if "mlx.core" in sys.modules else {}  # not every family needs MLX
    return used | {"resident": psutil.Process().memory_info().rss}


def _mlx(cache_bytes: int) -> dict[str, int]:
    from models.backend import give_back, mx

    if mx.get_cache_memory() > cache_bytes:
        mx.clear_cache()
    give_back()
    return {
        "mlx_active": mx.get_active_memory(),
        "mlx_cache": mx.get_cache_memory(),
        "mlx_peak": mx.get_peak_memory(),
    }
