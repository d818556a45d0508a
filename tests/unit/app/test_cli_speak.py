from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from app.cli import cli


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(cli, ["speak", str(broken), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert f"failed {broken}: cannot be read" in result.stderr
