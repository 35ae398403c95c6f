"""The bench compares like with like: three implementations, one result, and a difference is noticed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.rows import sample
from warehouse.append import append
from warehouse.bench import frames_pandas, frames_polars, synthetic
from warehouse.bench.rules import FOUND, WHERE, disagreement, rank
from warehouse.build import build
from warehouse.lake import scan
from warehouse.verify import verify

Winners = Callable[[Path], list[tuple[Any, ...]]]
FRAMES = pytest.mark.parametrize("winners", [frames_polars.winners, frames_pandas.winners])
ROW = ("GPU", "cell", "graph", "run", 1, "win", "dispatch", "dispatch", "vllm", 1.05, 1.04, 1.06)


def asked(db: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(db), read_only=True) as con:
        return con.execute(sql).fetchall()


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A synthetic lake of 300,000 samples and its warehouse."""
    folder = tmp_path_factory.mktemp("bench")
    synthetic.write(folder / "lake", 300_000)
    build([folder / "lake"], folder / "w.db")
    return folder / "lake", folder / "w.db"


@FRAMES
def test_frames_and_views_name_the_same_winners(raced: tuple[Path, Path], winners: Winners) -> None:
    lake, db = raced
    expected = asked(db, f"SELECT {', '.join(WHERE + FOUND)} FROM winners")
    assert len(expected) == 2 * 20
    assert disagreement(expected, winners(lake), ("views", "frames")) is None


def test_the_synthetic_lake_has_every_outcome_and_every_fate(raced: tuple[Path, Path]) -> None:
    _, db = raced
    outcomes = {row[0] for row in asked(db, "SELECT DISTINCT outcome FROM run_outcomes")}
    assert outcomes == {"win", "tie", "inconclusive", "incomplete", "sole entrant"}
    reasons = {row[0] for row in asked(db, "SELECT DISTINCT reason_code FROM contestant_status")}
    assert {"wrong-output", "not-installed", "no-samples", "too-few-rounds", "invalid-time"} <= reasons


def test_the_synthetic_lake_is_one_that_verify_finds_nothing_in(raced: tuple[Path, Path]) -> None:
    assert verify([raced[0]]).findings == []


def test_exactly_as_many_samples_as_asked_in_files_of_the_asked_size(tmp_path: Path) -> None:
    written = synthetic.write(tmp_path / "a", 10_001, rows_a_file=1000)
    rows = [pq.read_metadata(path).num_rows for path in scan(tmp_path / "a").files("samples")]
    assert (written.rows, written.files) == (10_001, len(rows)) == (sum(rows), len(rows))
    assert max(rows) == 1000
    synthetic.write(tmp_path / "b", 10_001)
    one, other = (
        pa.concat_tables(map(pq.read_table, scan(tmp_path / name).files("samples"))) for name in "ab"
    )
    assert one.equals(other)


@FRAMES
def test_a_sample_that_stands_twice_is_refused(tmp_path: Path, winners: Winners) -> None:
    lake = tmp_path / "lake"
    synthetic.write(lake, 5000)
    append(lake, "samples", [sample(1), sample(1)])
    with pytest.raises(ValueError, match="a sample stands in the lake twice"):
        winners(lake)


@FRAMES
def test_one_sample_decides_nothing(tmp_path: Path, winners: Winners) -> None:
    synthetic.write(tmp_path, 1)
    assert {row[len(WHERE) + FOUND.index("outcome")] for row in winners(tmp_path)} == {"incomplete"}


@pytest.mark.parametrize(("rounds", "confidence", "expected"), [(12, 0.96, 3), (12, 0.99, 2), (12, 0.999, 1), (5, 0.99, None)])  # fmt: skip
def test_the_rank_of_an_interval(rounds: int, confidence: float, expected: int | None) -> None:
    assert rank(rounds, confidence) == expected


def test_the_rank_is_the_largest_that_covers() -> None:
    for n in range(2, 40):
        ranks = [rank(n, c) or 0 for c in (0.5, 0.9, 0.99, 0.999)]
        assert all(a >= b for a, b in pairwise(ranks))
        for r, c in zip(ranks, (0.5, 0.9, 0.99, 0.999), strict=True):
            outside = 2 * sum(comb(n, k) for k in range(r + 1))
            assert r == n // 2 or outside > (1 - c) * 2**n


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"outcome": "tie"}, "GPU cell graph: outcome is win in a and tie in b"),
        ({"margin": 1.0501}, "GPU cell graph: margin is 1.05 in a and 1.0501 in b"),
        ({"winner": None}, "GPU cell graph: winner is dispatch in a and None in b"),
        ({"margin": 1.05 * (1 + 1e-12)}, None),
    ],
)
def test_a_difference_is_named(changed: dict[str, object], says: str | None) -> None:
    names = [*WHERE, *FOUND]
    other = tuple(changed.get(name, value) for name, value in zip(names, ROW, strict=True))
    assert disagreement([ROW], [other], ("a", "b")) == says


def test_a_cell_that_one_side_lacks_is_named() -> None:
    assert disagreement([ROW], [], ("a", "b")) == "GPU cell graph is missing in the winners of b"
    assert disagreement([], [ROW], ("a", "b")) == "GPU cell graph is missing in the winners of a"


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warehouse.bench", *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_prints_every_figure_and_leaves_the_lake_where_it_is_asked(tmp_path: Path) -> None:
    done = command("--rows", 12_000, "--folder", tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "")
    figures = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert figures == [
        "machine", "lake", "append", "build", "winners.sql", "build and winners", "polars", "pandas",
        "growth", "winners", "agreement", "database",
    ]  # fmt: skip
    assert asked(tmp_path / "new" / "whole" / "warehouse.db", "SELECT count(*) FROM samples") == [(12_000,)]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("kept")
    done = command("--folder", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"warehouse.bench: {tmp_path} is not empty; name a new folder.\n"
