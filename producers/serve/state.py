"""What the lake holds of serve runs: their events, and the points that need not be measured again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from producers.errors import UsageError
from producers.serve.plan import Point
from warehouse.lake import scan

PRODUCER = "serve"
NEWEST = "newest"

Row = dict[str, Any]


@dataclass
class ServeState:
    """A run as the lake has it: its events in order, and the points with a result."""

    run_id: str
    events: list[Row] = field(default_factory=list)
    done: set[Point] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)
    configs: set[str] = field(
        default_factory=set
    )  # SHA-256 of the config.json that its points were measured with

    @property
    def next_event(self) -> int:
        """Sequence number of the next row of ``runs``."""
        return 1 + max((int(row["event_seq"]) for row in self.events), default=-1)

    @property
    def asked(self) -> dict[str, Any]:
        """The plan that the run was started with."""
        asked: dict[str, Any] = json.loads(self.events[0]["plan_json"])
        return asked


def events_of(lake: Path, run_id: str | None) -> list[Row]:
    """Rows of ``runs`` of one run, or of every serve run, in order."""
    rows = _rows(lake, "runs", ())
    kept = [
        row for row in rows if row["run_id"] == run_id or (run_id is None and row["producer"] == PRODUCER)
    ]
    return sorted(kept, key=lambda row: (row["run_id"], row["event_seq"]))


def find(lake: Path, run_id: str) -> ServeState:
    """The run to go on with: by identifier, or the newest that is not finished.

    Raises:
        UsageError: there is no such run, or it is finished.
    """
    last = {row["run_id"]: row for row in events_of(lake, None)}
    if run_id == NEWEST:
        unfinished = [name for name, row in last.items() if row["event"] != "finished"]
        if not unfinished:
            raise UsageError(f"There is no unfinished serve run in {lake}; start one without --resume.")
        run_id = max(unfinished)
    if run_id not in last:
        known = ", ".join(sorted(last)) or "none"
        raise UsageError(f"There is no serve run '{run_id}' in {lake}; known are {known}.")
    if last[run_id]["event"] == "finished":
        raise UsageError(f"Serve run '{run_id}' is finished; a correction is a new run.")
    columns = ("run_id", "engine", "max_concurrency", "repeat", "status", "extra_json")
    passed = [
        row
        for row in _rows(lake, "serving_runs", columns)
        if row["run_id"] == run_id and row["status"] == "passed"
    ]
    done = {Point(row["engine"], row["max_concurrency"], row["repeat"]) for row in passed}
    extras = [json.loads(row["extra_json"] or "{}") for row in passed]
    configs = {extra["config_sha256"] for extra in extras if "config_sha256" in extra}
    damaged = [f"{entry.table}/{entry.path.name} ({entry.reason})" for entry in scan(lake).damaged]
    return ServeState(run_id, events_of(lake, run_id), done, damaged, configs)


def _rows(lake: Path, table: str, columns: tuple[str, ...]) -> list[Row]:
    rows: list[Row] = []
    for path in scan(lake).files(table):
        found: pa.Table = pq.read_table(path, columns=list(columns) or None, partitioning=None)
        if "run_id" in found.column_names:
            found = found.filter(pc.is_valid(found["run_id"]))
        rows += found.to_pylist()
    return rows
