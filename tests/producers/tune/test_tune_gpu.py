"""The command on a card: kernels compiled beforehand, graphs replayed, outputs checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.gpu
def test_dispatch_is_tuned_on_the_card(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "producers.tune", "--contestants", "dispatch", "example"]
    command += ["--workload", "olmoe", "--precision", "bf16,int8_w8a8", "--tokens", "1,16"]
    command += ["--budget-seconds", "60", "--candidates", "8", "--busy-ok"]
    command += ["--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "tuned")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [
        row for path in (tmp_path / "lake" / "tuning").glob("*") for row in pq.read_table(path).to_pylist()
    ]
    assert {row["timing_mode"] for row in rows} == {"graph"}
    for contestant in ("dispatch", "example"):
        own = [row for row in rows if row["contestant"] == contestant]
        assert len({row["cell_id"] for row in own if row["stage"] == "confirm"}) == 2 * 2 * 2
        tried = {row["config_json"] for row in own if row["status"] == "passed"}
        assert len(tried) > 2
    assert list((tmp_path / "tuned" / "dispatch").glob("*.json"))
