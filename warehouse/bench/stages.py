"""The steps of the bench, each in a process of its own: time without imports, memory of that step alone."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from queries import statement
from warehouse.bench.rules import FOUND, WHERE

_STATUS = Path("/proc/self/status")


def write(lake: Path, rows: str, rows_a_file: str) -> dict[str, Any]:
    """Write the synthetic lake."""
    from warehouse.bench import synthetic  # noqa: PLC0415

    return asdict(synthetic.write(lake, int(rows), int(rows_a_file)))


def build(lake: Path, db: str) -> dict[str, Any]:
    """Build the warehouse."""
    from warehouse.build import build as build_warehouse  # noqa: PLC0415

    watch = _Watch()
    report = build_warehouse([lake], Path(db))
    return {**watch.read(), "rows": report.rows["samples"]}


def query(_: Path, db: str) -> dict[str, Any]:
    """Run winners.sql as a person does: open the file, run it, fetch everything. Then read all winners."""
    import duckdb  # noqa: PLC0415

    sql = statement("winners")
    watch = _Watch()
    with duckdb.connect(db, read_only=True) as con:
        con.execute(sql).fetchall()
        cost = watch.read()
        rows = con.execute(f"SELECT {', '.join(WHERE + FOUND)} FROM winners").fetchall()
    return {**cost, "winners": rows}


def polars(lake: Path) -> dict[str, Any]:
    """Compute the winners in polars, from Parquet."""
    from warehouse.bench.frames_polars import winners  # noqa: PLC0415

    return _computed(winners, lake)


def pandas(lake: Path) -> dict[str, Any]:
    """Compute the winners in pandas, from Parquet."""
    from warehouse.bench.frames_pandas import winners  # noqa: PLC0415

    return _computed(winners, lake)


def _computed(winners: Callable[[Path], list[tuple[Any, ...]]], lake: Path) -> dict[str, Any]:
    watch = _Watch()
    rows = winners(lake)
    return {**watch.read(), "winners": rows}


class _Watch:
    """Seconds on the clock, and of all cores together: the second tells a busy machine from slow code."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, cpu = self._start
        return {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


STAGES: dict[str, Callable[..., dict[str, Any]]] = {
    stage.__name__: stage for stage in (write, build, query, polars, pandas)
}


class StageError(Exception):
    """A step ended with an error; the message names the step and what it said last."""


def run(stage: str, lake: Path, *arguments: object) -> dict[str, Any]:
    """Run a step in a new process and return what it reports, with its ``peak_bytes``.

    Raises:
        StageError: the process ended with an error.
    """
    command = [sys.executable, "-m", "warehouse.bench.stages", stage, str(lake), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise StageError(f"The step '{stage}' failed: {last}")
    return dict(json.loads(done.stdout))


def peak_bytes() -> int:
    """Return the most memory that this process had resident, in bytes.

    Linux hands ru_maxrss of the parent on to the program that it starts, so that there the kernel's own
    figure of this program (VmHWM) is taken.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    name, folder, *rest = sys.argv[1:]
    result = STAGES[name](Path(folder), *rest)
    print(json.dumps({**result, "peak_bytes": peak_bytes()}))
