"""What the lake already holds of a run, and whether the run may go on here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from producers.environment import Environment
from producers.errors import RefusedError, UsageError
from producers.plan import Plan
from warehouse.lake import LakeScan, scan

Row = dict[str, Any]

NEWEST = "newest"
# What makes two workers of a contestant the same program.
VERSION_COLUMNS = ("python_version", "torch_version", "triton_version", "package_version", "source_sha256")


@dataclass
class RunState:
    """A run as the lake has it."""

    run_id: str
    events: list[Row] = field(default_factory=list)
    seats: set[tuple[str, str]] = field(default_factory=set)  # (contestant, precision) in rosters
    inputs: dict[str, str] = field(default_factory=dict)  # cell_id -> inputs_sha256
    workers: dict[tuple[str, int], Row] = field(default_factory=dict)  # (contestant, session)
    verdicts: list[Row] = field(default_factory=list)
    # (session, cell_id) with samples, and (session, cell_id, contestant, timing_mode).
    done: set[tuple[int, str]] = field(default_factory=set)
    measured: set[tuple[int, str, str, str]] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)  # files of the lake that nobody can read

    @property
    def next_event(self) -> int:
        """Sequence number of the next row of ``runs``."""
        return 1 + max((int(row["event_seq"]) for row in self.events), default=-1)

    @property
    def asked(self) -> dict[str, Any]:
        """The plan options that the run was started with."""
        asked = json.loads(self.events[0]["plan_json"])
        return {key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()}

    def barred(self) -> set[tuple[str, str, str]]:
        """(cell_id, contestant, mode or 'all') refused by the contestant's own fault: not run again."""
        return {
            (row["cell_id"], row["contestant"], row["timing_mode"])
            for row in self.verdicts
            if row["status"] == "refused" and row["fault"] == "contestant"
        }

    def card_index(self, device_uuid: str) -> int:
        """Place of a card among those that the run was started or resumed on; a new one comes last.

        Samples carry no card, so every card has session numbers of its own: ``index * sessions`` on.
        """
        cards = [row["device_uuid"] for row in self.events if row["event"] in {"started", "resumed"}]
        cards = list(dict.fromkeys(cards))
        return cards.index(device_uuid) if device_uuid in cards else len(cards)

    def versions(self) -> dict[str, tuple[Any, ...]]:
        """Contestant -> values of :data:`VERSION_COLUMNS` of its first worker."""
        found: dict[str, tuple[Any, ...]] = {}
        for (name, _), row in sorted(self.workers.items(), key=lambda item: item[0]):
            found.setdefault(name, tuple(row[column] for column in VERSION_COLUMNS))
        return found


def read(lake: LakeScan, run_id: str) -> RunState:
    """Everything that the readable files of ``lake`` hold of ``run_id``.

    What stood in a damaged file is measured again; the file is named and stays where it is.
    """
    state = RunState(run_id)
    state.damaged = [f"{entry.table}/{entry.path.name} ({entry.reason})" for entry in lake.damaged]
    state.events = sorted(rows_of(lake, "runs", run_id), key=lambda row: int(row["event_seq"]))
    state.seats = {
        (row["contestant"], row["precision"])
        for row in rows_of(lake, "rosters", run_id, ("contestant", "precision"))
    }
    state.inputs = {
        row["cell_id"]: row["inputs_sha256"]
        for row in rows_of(lake, "cells", run_id, ("cell_id", "inputs_sha256"))
    }
    state.workers = {(row["contestant"], row["session"]): row for row in rows_of(lake, "workers", run_id)}
    state.verdicts = rows_of(lake, "verdicts", run_id)
    keys = ("session", "cell_id", "contestant", "timing_mode")
    for row in rows_of(lake, "samples", run_id, keys, distinct=True):
        state.done.add((row["session"], row["cell_id"]))
        state.measured.add((row["session"], row["cell_id"], row["contestant"], row["timing_mode"]))
    return state


def has_policy(lake: Path, sha256: str) -> bool:
    """Whether a policy is registered in the lake."""
    rows = rows_of(scan(lake), "policies", None, ("policy_sha256",))
    return any(row["policy_sha256"] == sha256 for row in rows)


def find(lake: Path, run_id: str, producer: str = "race") -> RunState:
    """The run to resume: by identifier, or the newest of ``producer`` that is not finished.

    Raises:
        UsageError: there is no such run, or it is finished.
    """
    found = scan(lake)
    last: dict[str, Row] = {}
    for row in rows_of(found, "runs", None):
        known = last.get(row["run_id"])
        if row["producer"] == producer and (known is None or row["event_seq"] > known["event_seq"]):
            last[row["run_id"]] = row
    if run_id == NEWEST:
        open_runs = [name for name, row in last.items() if row["event"] != "finished"]
        if not open_runs:
            raise UsageError(f"There is no unfinished {producer} in {lake}; start one without --resume.")
        run_id = max(open_runs)
    if run_id not in last:
        raise UsageError(
            f"There is no {producer} '{run_id}' in {lake}; known are {', '.join(sorted(last)) or 'none'}."
        )
    if last[run_id]["event"] == "finished":
        raise UsageError(f"{producer.capitalize()} '{run_id}' is finished; a correction is a new run.")
    return read(found, run_id)


def check_unchanged(state: RunState, environment: Environment, policy_sha256: str) -> None:
    """Refuse to go on under the run's identifier where its conditions changed.

    Another card of the same model is no change: whole cells may still be added there
    (a cell stays on the card that it was begun on).

    Raises:
        RefusedError: naming everything that changed.
    """
    before = state.events[0]
    now = environment.columns()
    changed = [
        f"{label} was {before[column] or 'none'} and is {now[column] or 'none'}"
        for column, label in (
            ("device", "device"),
            ("driver_version", "driver"),
            ("power_limit_w", "power limit"),
        )
        if before[column] != now[column]
    ]
    if before["policy_sha256"] != policy_sha256:
        changed.append("the policy was edited")
    if before["source_sha256"] != now["source_sha256"]:
        changed.append("the sources of dispatch or producers were edited")
    if changed:
        producer = str(before["producer"])
        raise RefusedError(
            f"{producer.capitalize()} '{state.run_id}' cannot go on: {'; '.join(changed)}. "
            f"Undo that, or start a new {producer}."
        )


def check_asked(state: RunState, given: Mapping[str, Any]) -> None:
    """Refuse plan options that differ from those of the run.

    Raises:
        UsageError: naming the first one.
    """
    asked, producer = state.asked, state.events[0]["producer"]
    for name, value in given.items():
        if (name in asked and asked[name] != value) or name not in asked:
            raise UsageError(
                f"'{name}' is {_shown(value)} here and {_shown(asked.get(name))} in {producer} '{state.run_id}'; "
                f"a resumed {producer} keeps its plan, so leave the option out."
            )


def check_versions(state: RunState, contestant: str, hello: Mapping[str, Any]) -> None:
    """Refuse a worker that is not the program that was measured before in this run.

    Raises:
        RefusedError: naming what changed.
    """
    before = state.versions().get(contestant)
    if before is None:
        return
    for column, was in zip(VERSION_COLUMNS, before, strict=True):
        now = hello.get(column)
        if now != was:
            raise RefusedError(
                f"Race '{state.run_id}' cannot go on: {column} of '{contestant}' was {was or 'unknown'} and "
                f"is {now or 'unknown'}. Give it the interpreter and import paths of before, or start anew."
            )


def incomplete(state: RunState, plan: Plan) -> list[str]:
    """``cell (mode): who is missing`` for every cell and mode that lacks a required rival.

    A required contestant is there when every session has samples of it, or it was refused by its own
    fault. The views judge the same from the lake, with the policy's thresholds on top.
    """
    barred = state.barred()
    sessions = Counter((cell_id, name, mode) for _, cell_id, name, mode in state.measured)
    lacking = []
    for cell in plan.cells:
        for mode in plan.modes:
            missing = []
            for seat in plan.seats:
                key = (cell.cell_id, seat.contestant, mode)
                if seat.role != "required" or seat.precision != cell.precision:
                    continue
                refused = key in barred or (*key[:2], "all") in barred
                if not refused and sessions[key] < plan.sessions:
                    missing.append(seat.contestant)
            if missing:
                lacking.append(f"{cell.cell_id} ({mode}): {', '.join(missing)}")
    return lacking


def _shown(value: Any) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, (tuple, list)) else repr(value)


def rows_of(
    lake: LakeScan,
    table: str,
    run_id: str | None,
    columns: tuple[str, ...] | None = None,
    *,
    distinct: bool = False,
) -> list[Row]:
    """Rows of a table, of one run, from every readable file (one file at a time: schemas may grow)."""
    rows: list[Row] = []
    for path in lake.files(table):
        names = columns if columns is None or run_id is None else [*columns, "run_id"]
        found: pa.Table = pq.read_table(
            path, columns=None if names is None else list(names), partitioning=None
        )
        if run_id is not None:
            found = found.filter(pc.equal(found["run_id"], run_id))
        if distinct and columns is not None:
            found = found.group_by(list(columns)).aggregate([])
        rows += found.to_pylist()
    return rows
