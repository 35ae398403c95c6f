"""What the gate and decode refuse before they write anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.decode.__main__ import main as decode
from producers.gate.__main__ import main as gate


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "mixtal"], "neither a model known by name"),
        (["--model", "./checkpoint"], "no weights"),
        (["--config", ","], "--config names nothing"),
        (["--seed", str(2**63)], "--seed is 9223372036854775808"),
        (["--seed", "-1"], "--seed is -1"),
    ],
)
@pytest.mark.parametrize("command", [gate, decode])
def test_what_cannot_start_leaves_no_run(
    command: object,
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    model = [] if "--model" in options else ["--model", "tiny-mixtral"]
    assert callable(command)
    assert command([*model, *options, "--device", "cpu", "--lake", "lake"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "none.txt"], "cannot be read"),
        (["--text", "."], "cannot be read"),
        (["--text", "blank.txt"], "is empty"),
        (["--text", "bytes.txt"], "not UTF-8"),
        (["--worker-timeout", "nan"], "--worker-timeout is nan"),
        (["--worker-timeout", "0"], "--worker-timeout is 0"),
        (["--worker-timeout", "inf"], "--worker-timeout is inf"),
    ],
)
def test_the_gate_reads_its_text_first(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    assert gate(["--model", "tiny-mixtral", *options, "--device", "cpu", "--lake", "lake"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()
