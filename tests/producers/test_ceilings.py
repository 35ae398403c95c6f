"""The ceilings command: what it records, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from producers import ceilings
from producers.environment import Device, Environment, Sources
from producers.errors import PeerError

CARD = Environment(
    Device("NVIDIA H200", "GPU-1", "580.1", 700.0, 132, 60 << 20, 140 << 30),
    Sources("abc", "0" * 64, False),
    "host",
    "Linux",
)
MEASURED = [
    {
        "ceiling": "read",
        "repeat": 0,
        "problem": "p",
        "time_us": 2.0,
        "bytes_per_s": 4.2e12,
        "ops_per_s": None,
    },
    {
        "ceiling": "read",
        "repeat": 1,
        "problem": "q",
        "time_us": 1.0,
        "bytes_per_s": 4.3e12,
        "ops_per_s": None,
    },
    {
        "ceiling": "bf16_matmul",
        "repeat": 0,
        "problem": "r",
        "time_us": 9.0,
        "bytes_per_s": None,
        "ops_per_s": 8e14,
    },
]


class Referee:
    """Answers like a referee that has a card, or fails."""

    def __init__(self, failure: PeerError | None) -> None:
        self.failure = failure

    def request(self, op: str, timeout_s: float, **fields: Any) -> dict[str, Any]:  # noqa: ARG002
        if op == "ceilings" and self.failure is not None:
            raise self.failure
        return {"ok": True, "ceilings": MEASURED}

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Referee:
    referee = Referee(None)
    monkeypatch.setattr(ceilings, "detect", lambda _: CARD)
    monkeypatch.setattr("producers.ceilings.Scratch.referee", lambda _self, _poll: referee)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return referee


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    return [
        row for file in sorted((lake / table).glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def test_rows_events_and_best_repeats(
    card: Referee, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert card.failure is None
    assert ceilings.main(["--lake", str(tmp_path / "lake")]) == 0
    found = rows(tmp_path / "lake", "ceilings")
    assert [(r["ceiling"], r["repeat"], r["bytes_per_s"], r["ops_per_s"]) for r in found] == [
        ("read", 0, 4.2e12, None),
        ("read", 1, 4.3e12, None),
        ("bf16_matmul", 0, None, 8e14),
    ]
    assert {(r["device"], r["device_uuid"]) for r in found} == {("NVIDIA H200", "GPU-1")}
    events = rows(tmp_path / "lake", "runs")
    assert [(e["event"], e["producer"], e["run_id"]) for e in events] == [
        ("started", "ceilings", found[0]["run_id"]),
        ("finished", "ceilings", found[0]["run_id"]),
    ]
    out = capsys.readouterr().out
    assert "4.300 TB/s    q" in out
    assert "800.0 Tops/s  r" in out


def test_a_failed_measurement_records_nothing(
    card: Referee, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card.failure = PeerError("out-of-memory", "no room", fatal=False)
    assert ceilings.main(["--lake", str(tmp_path / "lake")]) == 5
    assert "could not be measured (out-of-memory: no room)" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


def test_a_cpu_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert ceilings.main(["--lake", str(tmp_path / "lake")]) == 5
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no CUDA device" in error
    assert not (tmp_path / "lake").exists()
