"""``python -m warehouse.bench``: append, build and winners.sql, beside the same winners in polars and pandas."""

from __future__ import annotations

import collections
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from warehouse.bench.rules import FOUND, WHERE, disagreement
from warehouse.bench.stages import StageError, run

_FEWER = 10  # the smaller lake that growth is judged by has this part of the rows
_GB = 1e9
_OUTCOME = len(WHERE) + FOUND.index("outcome")
_ROWS_A_FILE = 1 << 20


def bench(
    rows: Annotated[int, typer.Option(min=1, help="Samples of the synthetic lake.")] = 10_000_000,
    rows_a_file: Annotated[int, typer.Option(min=1, help="Most samples in one file.")] = _ROWS_A_FILE,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the lake is written and stays. Default: a temporary folder."),
    ] = None,
) -> None:
    """Measure the warehouse on a synthetic lake. Exit 1: the winners of two implementations differ."""
    if folder is not None and folder.exists() and any(folder.iterdir()):
        _end(2, f"{folder} is not empty; name a new folder.")
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            difference = _measure(folder, rows, rows_a_file)
        else:
            with tempfile.TemporaryDirectory(prefix="warehouse-bench-") as temporary:
                difference = _measure(Path(temporary), rows, rows_a_file)
    except (OSError, StageError) as error:
        _end(2, str(error))
    if difference is not None:
        _end(1, f"the winners differ: {difference}.")


def _measure(folder: Path, rows: int, rows_a_file: int) -> str | None:
    """Measure and print; return the first disagreement between the implementations."""
    _line(
        "machine", f"{os.cpu_count()} cores, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars", "pandas", "pyarrow")),
    )  # fmt: skip
    fewer = rows // _FEWER
    small = _warehouse(folder / "small", fewer, rows_a_file) if fewer else None
    lake, db = folder / "whole" / "lake", folder / "whole" / "warehouse.db"
    whole = _warehouse(folder / "whole", rows, rows_a_file)
    written, built, asked = whole["write"], whole["build"], whole["query"]
    _line(
        "lake", f"{written['rows']:,} samples, {written['runs']} runs, {written['devices']} devices, "
        f"{written['files']} files of samples",
    )  # fmt: skip
    _line("append", f"{written['rows'] / written['append_seconds'] / 1e6:.2f} million rows/s", "over 2")
    _line("build", _cost(built), "under 15 s and 4 GB")
    _line("winners.sql", f"{asked['seconds']:.3f} s", "under 0.5 s")
    total = built["seconds"] + asked["seconds"]
    _line("build and winners", f"{total:.2f} s", "no slower than polars and pandas")
    results: dict[str, Any] = {name: run(name, lake) for name in ("polars", "pandas")}
    for name, result in results.items():
        _line(name, f"{_cost(result)}, {result['seconds'] / total:.2f} of the time of build and winners")
    if small is not None:
        before = small["build"]["seconds"] + small["query"]["seconds"]
        _line("growth", f"{fewer:,} rows {before:.2f} s, {rows:,} rows {total:.2f} s: {total / before:.1f} times",
              f"at most {_FEWER}")  # fmt: skip
    outcomes = collections.Counter(row[_OUTCOME] for row in asked["winners"])
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    _line("winners", f"{len(asked['winners'])} cells: {counts}")
    for name, result in results.items():
        difference = disagreement(asked["winners"], result["winners"], ("the warehouse", name))
        if difference is not None:
            return difference
    _line("agreement", "the warehouse, polars and pandas name the same winners and margins")
    _line("database", f"{db.stat().st_size / 1e6:.0f} MB from {_size(lake) / 1e6:.0f} MB of Parquet")
    return None


def _warehouse(folder: Path, rows: int, rows_a_file: int) -> dict[str, dict[str, Any]]:
    lake, db = folder / "lake", folder / "warehouse.db"
    return {
        "write": run("write", lake, rows, rows_a_file),
        "build": run("build", lake, db),
        "query": run("query", lake, db),
    }


def _cost(result: dict[str, Any]) -> str:
    return f"{result['seconds']:.2f} s ({result['cpu_seconds']:.1f} s of CPU), {result['peak_bytes'] / _GB:.2f} GB"


def _size(lake: Path) -> int:
    return sum(path.stat().st_size for path in lake.rglob("*.parquet"))


def _line(what: str, figures: str, goal: str | None = None) -> None:
    print(f"{what:<18} {figures}" + (f"  (goal: {goal})" if goal else ""), flush=True)


def _end(code: int, sentence: str) -> NoReturn:
    print(f"warehouse.bench: {sentence}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    typer.run(bench)
