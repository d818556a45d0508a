from __future__ import annotations

import io

import pytest

from app.errors import BadRequest
from app.jobs.fetch import Bounds, fetch

BOUNDS = Bounds(seconds=1.0, max_bytes=10, allow="")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "http://me:hunter2@127.0.0.1/a.wav?sig=hunter2#hunter2",
            "http://127.0.0.1/a.wav: refused",
        ),
        ("ftp://me:hunter2@host/a.wav", "ftp://host/a.wav: its scheme is not http or https"),
        ("http://[::1/a?hunter2", "http://[::1/a: not a URL"),
    ],
)
def test_an_address_is_named_without_its_secrets(url: str, told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        fetch(url, io.BytesIO(), BOUNDS)
    assert refused.value.message.startswith(f"cannot fetch {told}")
    assert "hunter2" not in refused.value.message
