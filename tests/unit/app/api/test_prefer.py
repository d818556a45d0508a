from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.prefer import Preference, parse


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Preference()),
        (["respond-async"], Preference(respond_async=True)),
        (["Respond-Async, wait=10"], Preference(respond_async=True, wait_seconds=10.0)),
        (["respond-async", "wait=10"], Preference(respond_async=True, wait_seconds=10.0)),
        (["wait=10"], Preference(wait_seconds=10.0)),
        (['wait="5"; foo=bar'], Preference(wait_seconds=5.0)),
        (["wait=1, wait=2"], Preference(wait_seconds=1.0)),
        (["wait=-1"], Preference()),
        (["wait=soon, handling=lenient, return=minimal"], Preference()),
        (["respond-asynchronously"], Preference()),
    ],
)
def test_preferences(values, expected):
    assert parse(values) == expected


@given(st.lists(st.text()))
def test_any_header_is_understood_or_ignored(values):
    found = parse(values)
    assert found.wait_seconds is None or found.wait_seconds >= 0
