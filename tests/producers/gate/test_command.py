"""The command: what it refuses before anything runs, and a real run that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from producers.gate.__main__ import main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--config", "fast_bf16"],
            "--config names 'fast_bf16', which is no configuration; known are stock_vs_stock",
        ),
        (["--positions", "1035"], "--positions is 1035, and the policy asks for at least 1036"),
        (["--context", "0"], "--context is 0"),
        (["--workers", "0"], "--workers is 0; the least is 1"),
        (["--resume"], "There is no unfinished gate in"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert main([*arguments, "--lake", str(tmp_path / "lake")]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "lake").exists()


def test_the_plan_is_printed_and_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    lake = tmp_path / "lake"
    assert main(["--dry-run", "--lake", str(lake), "--positions", "1040", "--context", "259"]) == 0
    shown = capsys.readouterr().out
    assert "upcycled-smollm2, 1295 positions in 5 windows of 259 tokens" in shown
    assert "stock_vs_stock, against stock_bf16" in shown  # the control is never left out
    assert not lake.exists()


def command(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "producers.gate", "--model", "tiny-mixtral", "--device", "cpu"),
            *("--lake", str(folder / "lake"), "--no-build", *options),
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "TRITON_INTERPRET": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def workers(folder: Path) -> list[int]:
    """Processes whose temporary folder is ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended while we looked
    return found


@pytest.mark.slow
def test_a_killed_gate_leaves_a_readable_lake_and_goes_on(tmp_path: Path) -> None:
    gate = command(tmp_path)
    deadline = time.monotonic() + 300
    while len(list(tmp_path.glob("lake/gate_positions/*.parquet"))) < 2:
        assert gate.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    gate.send_signal(signal.SIGKILL)
    gate.communicate()
    while workers(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet")}
    for path in before:
        pq.read_table(path)
    resumed = command(tmp_path, "--resume")
    assert resumed.communicate()[1].count("positions differ") < 7  # what the lake has is not measured again
    assert resumed.returncode == 0
    assert all(path.read_bytes() == content for path, content in before.items())
    rows = [
        row
        for path in tmp_path.glob("lake/gate_positions/*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    assert len(rows) == 7 * 1036
    assert len({(row["config"], row["position"]) for row in rows}) == 7 * 1036
