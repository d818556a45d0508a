from __future__ import annotations

import json
from pathlib import Path


def test_json_lines(tmp_path: Path, wav, found) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "a.wav").write_bytes(wav)
    lines = [
        {"id": "talks/one", "source": "clips/a.wav", "options": {"language": "de"}},
        {"source": "clips/a.wav"},
        {"id": "gone", "source": "none.wav"},
        {"id": "../out", "source": "clips/a.wav"},
        {"id": "talks/one", "source": "clips/a.wav"},
        {"id": "odd", "source": "clips/a.wav", "options": {"speed": 2}},
        {"id": "none"},
        [1],
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("\n".join([*map(json.dumps, lines), "{", ""]))
    items = found(path)
    assert items[0].options == {"language": "de"}
    assert [(item.id, str(item.name)) for item in items[:2]] == [
        ("talks/one", "talks/one"),
        ("clips/a.wav", "a.wav"),
    ]
    reasons = [item.problem.reason for item in items[2:]]
    assert reasons[0] == "cannot be read: No such file or directory"
    assert "leads out of the target" in reasons[1]
    assert "used twice" in reasons[2]
    assert reasons[3].startswith("'options': speed; there are language")
    assert reasons[4:6] == ["'source' and 'id' must be texts", "not a JSON object"]
    assert reasons[6].startswith("not JSON")
    assert items[-1].id == f"{path}:9"


def test_csv(tmp_path: Path, wav, found) -> None:
    (tmp_path / "a.wav").write_bytes(wav)
    path = tmp_path / "list.csv"
    path.write_text("id,source,language\none,a.wav,fr\ntwo,a.wav,\nthree,,\n")
    one, two, three = found(path)
    assert (one.id, one.options, one.seconds) == ("one", {"language": "fr"}, 0.5)
    assert two.options == {}
    assert three.problem.reason == "'source' and 'id' must be texts"
