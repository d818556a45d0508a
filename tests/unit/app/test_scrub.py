from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scrub import CHARACTERS, scrub, scrubbed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cannot open /root/.cache/models/base/model.npz", "cannot open …/model.npz"),
        (
            "[Errno 2] No such file: '/home/My User/a b/c.json'",
            "[Errno 2] No such file: '…/c.json'",
        ),
        ("~/models/base/x is gone", "…/x is gone"),
        (r"C:\Users\me\weights.bin is short", "…/weights.bin is short"),
        ("(/srv/data/one.wav)", "(…/one.wav)"),
        ("in /srv/data/", "in …/"),
        ("no route to http://10.0.0.7:8333/bucket?X-Amz-Signature=ab1", "no route to http://…"),
        ("postgresql+psycopg://vox:pw@db/vox refused", "postgresql+psycopg://… refused"),
        ("password=hunter2, host=db", "password=…, host=db"),
        ("{'api_key': 'abc123'}", "{'api_key': …}"),
        ("Authorization: Bearer abcdefgh1234", "Authorization: …"),
        ("got bearer abcdefgh1234", "got bearer …"),
        ("key sk-abcdefgh1234 is wrong", "key … is wrong"),
    ],
)
def test_what_a_caller_need_not_know_is_gone(words: str, told: str) -> None:
    assert scrub(words) == told


@pytest.mark.parametrize(
    "words",
    [
        "asked to fail",
        "unsupported WAV format 1/24-bit",
        "speech and/or music at 3 m/s, 24/7",
        "the token </s> is not in the vocabulary; 50257 tokens",
        "shape (1, 80, 3000) / (1, 80, 1500)",
        "audio clip 0 is corrupt: missing RIFF/WAVE header",
    ],
)
def test_other_words_stay_as_they_are(words: str) -> None:
    assert scrub(words) == words


def test_of_a_stack_only_the_first_line_is_told() -> None:
    error = RuntimeError("it broke\n  File \"/srv/app/x.py\", line 3\nValueError: 'text'")
    assert scrubbed(error) == "it broke"


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert scrubbed(MemoryError()) == "MemoryError"


def test_a_long_text_is_cut() -> None:
    assert len(scrub("word " * CHARACTERS)) == CHARACTERS


folders = st.lists(
    st.text("abcdefghijklmnopqrstuvwxyz0123456789_-.@+", min_size=3, max_size=12),
    min_size=1,
    max_size=5,
)


@given(folders=folders, before=st.sampled_from(["", "in ", "file=", "'", '"', "(", ": "]))
def test_no_folder_of_an_absolute_path_is_told(folders: list[str], before: str) -> None:
    told = scrub(f"cannot read {before}/{'/'.join(folders)}/name.bin")
    assert f"/{folders[0]}" not in told
    assert "name.bin" in told
