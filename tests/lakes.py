"""Synthetic race lakes, written the way a race writes them: through :func:`warehouse.append.append`.

A :class:`Race` says who takes part, how fast each truly is, and what noise the machine adds; :func:`write`
turns races into lake files. The times of a race follow

    time = true time x (1 + drift(t)) x (1 + bias(contestant, session)) x (1 + noise)

where ``t`` runs through the measurements in the order in which they were taken, the bias is drawn anew for
every worker process, and the noise for every sample. Everything is drawn from ``seed``: equal arguments
give equal lakes. ``python -m tests.lakes FOLDER`` writes a small one to look at.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warehouse.append import append
from warehouse.schema import SCHEMA_VERSION, schema_of

POLICY = (Path(__file__).parents[1] / "checks" / "policy.toml").read_text(encoding="utf-8")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
# Not named in the policy: dispatch, vllm and sglang are required, and no datasheet is known.
DEVICE = "Test GPU"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Entrant:
    """A contestant of the roster, how fast it truly is, and what its workers run on."""

    name: str
    house: str
    time_us: float = 100.0
    role: str = "required"
    control_of: str | None = None
    entered: bool = True
    package_version: str = "1.0"
    torch_version: str = "2.13.0"
    triton_version: str = "3.7.1"
    device_uuid: str = "GPU-0"
    l2_state: str = "flushed"


@dataclass(frozen=True)
class Refusal:
    """A refused verdict; ``cell_id`` or ``session`` None means all. The refused unit has no samples."""

    contestant: str
    reason_code: str
    fault: str
    cell_id: str | None = None
    timing_mode: str = "all"
    session: int | None = None
    stage: str = "prepare"
    detail: str = "as the test asked"


def control(name: str = "dispatch-control", of: str = "dispatch", time_us: float = 100.0) -> Entrant:
    """Return the A/A control: ``of`` entered a second time."""
    return Entrant(name, of, time_us, role="control", control_of=of)


def trio(dispatch: float = 100.0, vllm: float = 100.0, sglang: float = 100.0) -> tuple[Entrant, ...]:
    """Return the default rivals with their true times in microseconds, and the control."""
    return (
        Entrant("dispatch", "dispatch", dispatch),
        Entrant("vllm", "vllm", vllm),
        Entrant("sglang", "sglang", sglang),
        control(time_us=dispatch),
    )


@dataclass(frozen=True)
class Race:
    """One run. ``missing`` holds (contestant, cell) pairs that leave no trace but the roster."""

    entrants: tuple[Entrant, ...] = field(default_factory=trio)
    run_id: str = "20260101T000000Z-00000000"
    device: str = DEVICE
    driver_version: str = "580.1"
    cells: tuple[str, ...] = ("deepseek-moe-16b/bf16/uniform/128",)
    modes: tuple[str, ...] = ("graph",)
    planned_modes: tuple[str, ...] = ()  # also asked for, nothing of it measured
    rounds: int = 12
    sessions: int = 6
    samples: int = 5
    noise: float = 0.005  # standard deviation of a sample
    drift: float = 0.01  # peak to peak over the run
    process_bias: float = 0.0  # half-width of the uniform bias that a worker process carries
    blocked: bool = False  # every contestant has its rounds in one piece: what a race must not do
    seed: int = 0
    policy: str | None = POLICY
    refusals: tuple[Refusal, ...] = ()
    missing: frozenset[tuple[str, str]] = frozenset()
    cell_facts: Mapping[str, int] = field(
        default_factory=lambda: {"weight_bytes": 1_000_000, "io_bytes": 1000, "flops": 1_000_000}
    )

    @property
    def policy_sha256(self) -> str:
        """The hash under which the run's policy is registered."""
        return hashlib.sha256((self.policy or "").encode()).hexdigest()

    def taking_part(self) -> list[Entrant]:
        """Return the entrants that were really entered, in roster order."""
        return [e for e in self.entrants if e.entered]

    def session_of(self) -> np.ndarray[Any, Any]:
        """Return the session of each round, [rounds]."""
        return np.arange(self.rounds) * self.sessions // self.rounds

    def started_at(self) -> datetime:
        """Return the time in ``run_id``, so that later identifiers are later runs."""
        return datetime.strptime(self.run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def run_id(number: int) -> str:
    """Return the run identifier of the ``number``-th minute of the synthetic calendar."""
    return f"{EPOCH + timedelta(minutes=number):%Y%m%dT%H%M%SZ}-{number:08x}"


def write(lake: Path, *races: Race) -> Path:
    """Append ``races`` to ``lake``, one file a table, and return ``lake``."""
    tables: dict[str, Rows] = {}
    samples: list[pa.Table] = []
    for race in races:
        for table, rows in _rows(race).items():
            tables.setdefault(table, []).extend(rows)
        if race.policy is not None:
            policy = {
                "policy_sha256": race.policy_sha256,
                "registered_at": EPOCH,
                "policy_toml": race.policy,
            }
            if policy not in tables.setdefault("policies", []):
                tables["policies"].append(policy)
        samples.append(sample_table(race))
    for table, rows in tables.items():
        if rows:
            append(lake, table, rows)
    if samples:
        append(lake, "samples", pa.concat_tables(samples))
    return lake


def write_ceilings(
    lake: Path,
    *,
    run: str,
    device: str = DEVICE,
    read_bytes_per_s: float = 4.0e12,
    bf16_ops_per_s: float = 700e12,
) -> Path:
    """Append measured ceilings of ``device``: three repeats each, of which the given rate is the best."""
    rows: Rows = []
    for repeat, share in enumerate((0.98, 1.0, 0.99)):
        common = {
            "run_id": run,
            "repeat": repeat,
            "device": device,
            "device_uuid": "GPU-0",
            "recorded_at": EPOCH,
            "time_us": 1000.0,
        }
        rows.append({**common, "ceiling": "read", "bytes_per_s": share * read_bytes_per_s})
        rows.append({**common, "ceiling": "bf16_matmul", "ops_per_s": share * bf16_ops_per_s})
    append(lake, "ceilings", rows)
    return lake


def _rows(race: Race) -> dict[str, Rows]:
    """Every table of a race but samples and policies."""
    start = race.started_at()
    runs: Rows = [
        {
            "run_id": race.run_id,
            "event_seq": seq,
            "event": event,
            "recorded_at": start + timedelta(seconds=seq),
            "producer": "race",
            "policy_sha256": race.policy_sha256,
            "device": race.device,
            "driver_version": race.driver_version,
            "seed": race.seed,
            "plan_json": json.dumps({"mode": [*race.modes, *race.planned_modes]}) if seq == 0 else None,
        }
        for seq, event in enumerate(("started", "finished"))
    ]
    precisions = sorted({cell.split("/")[1] for cell in race.cells})
    rosters: Rows = [
        {
            "run_id": race.run_id,
            "contestant": e.name,
            "house": e.house,
            "role": e.role,
            "entered": e.entered,
            "precision": precision,
            "control_of": e.control_of,
            "recorded_at": start,
        }
        for e in race.entrants
        for precision in precisions
    ]
    cells = [_cell_row(race, cell) for cell in race.cells]
    workers: Rows = [
        {
            "run_id": race.run_id,
            "contestant": e.name,
            "session": session,
            "recorded_at": start,
            "torch_version": e.torch_version,
            "triton_version": e.triton_version,
            "package_version": e.package_version,
            "source_sha256": f"source of {e.name} {e.package_version}",
            "device": race.device,
            "device_uuid": e.device_uuid,
        }
        for e in race.entrants
        if e.entered
        for session in range(race.sessions)
    ]
    return {
        "runs": runs,
        "rosters": rosters,
        "cells": cells,
        "workers": workers,
        "verdicts": _verdicts(race),
    }


def _cell_row(race: Race, cell: str) -> dict[str, Any]:
    workload, precision, routing, tokens = cell.split("/")
    shape = {"experts": 64, "top_k": 6, "hidden": 2048, "intermediate": 1408}
    identity = {"run_id": race.run_id, "cell_id": cell, "workload": workload, "precision": precision}
    return {**identity, "routing": routing, "tokens": int(tokens), **shape, **race.cell_facts}


def _verdicts(race: Race) -> Rows:
    rows: Rows = []
    for session in range(race.sessions):
        at = race.started_at() + timedelta(minutes=session + 1)
        for cell in race.cells:
            for e in race.entrants:
                if (e.name, cell) in race.missing or not e.entered:
                    continue
                common = {
                    "run_id": race.run_id,
                    "cell_id": cell,
                    "contestant": e.name,
                    "session": session,
                    "recorded_at": at,
                }
                refusals = [r for r in race.refusals if _applies(r, e.name, cell, session)]
                rows += [
                    {
                        **common,
                        "timing_mode": r.timing_mode,
                        "stage": r.stage,
                        "status": "refused",
                        "reason_code": r.reason_code,
                        "fault": r.fault,
                        "detail": r.detail,
                    }
                    for r in refusals
                ]
                rows += [
                    {
                        **common,
                        "timing_mode": mode,
                        "stage": "timed-output",
                        "status": "passed",
                        "relative_error": 0.002,
                        "tolerance": 0.01,
                        "repeatability": "bitwise",
                    }
                    for mode in race.modes
                    if all(r.timing_mode not in (mode, "all") for r in refusals)
                ]
    return rows


def _applies(refusal: Refusal, contestant: str, cell: str, session: int, mode: str | None = None) -> bool:
    return (
        refusal.contestant == contestant
        and refusal.cell_id in (None, cell)
        and refusal.session in (None, session)
        and (mode is None or refusal.timing_mode in (mode, "all"))
    )


def sample_table(race: Race) -> pa.Table:
    """Return the race's samples, cast to the lake's schema, in the order in which they were taken."""
    rng = np.random.default_rng(race.seed)
    entrants = race.taking_part()
    n, rounds, per_round = len(entrants), race.rounds, race.samples
    parts: list[pa.Table] = []
    bias = rng.uniform(-race.process_bias, race.process_bias, (n, race.sessions))
    for cell in race.cells:
        for mode in race.modes:
            # position[r, e]: place of contestant e in round r; when[r, e]: its place in the whole, in [0, 1).
            if race.blocked:
                position = np.tile(np.arange(n), (rounds, 1))
                when = (position * rounds + np.arange(rounds)[:, None]) / (n * rounds)
            else:
                position = np.argsort(rng.random((rounds, n)), axis=1)
                when = (np.arange(rounds)[:, None] * n + position) / (n * rounds)
            phase = rng.random()
            drift = 1 + race.drift / 2 * np.sin(2 * np.pi * (when + phase))
            true = np.array([e.time_us for e in entrants])
            level = true * drift * (1 + bias[:, race.session_of()].T)
            times = level[:, :, None] * (1 + race.noise * rng.standard_normal((rounds, n, per_round)))
            parts.append(_as_table(race, cell, mode, position, times))
    return pa.concat_tables(parts).combine_chunks()


def _as_table(
    race: Race,
    cell: str,
    mode: str,
    position: np.ndarray[Any, Any],
    times: np.ndarray[Any, Any],
) -> pa.Table:
    """Return ``times`` [rounds, contestants, samples] as rows, without the units that have no samples."""
    entrants, session_of = race.taking_part(), race.session_of()
    rounds, n, per_round = times.shape
    keep = np.array(
        [
            [
                (e.name, cell) not in race.missing
                and not any(_applies(r, e.name, cell, int(s), mode) for r in race.refusals)
                for e in entrants
            ]
            for s in session_of
        ]
    ).repeat(per_round)
    size = rounds * n * per_round
    columns = {
        "schema_version": np.full(size, SCHEMA_VERSION),
        "run_id": [race.run_id] * size,
        "cell_id": [cell] * size,
        "contestant": np.tile(np.repeat([e.name for e in entrants], per_round), rounds),
        "timing_mode": [mode] * size,
        "session": np.repeat(session_of, n * per_round),
        "round": np.repeat(np.arange(rounds), n * per_round),
        "position": np.repeat(position.reshape(-1), per_round),
        "sample": np.tile(np.arange(per_round), rounds * n),
        "time_us": times.reshape(-1),
        "l2_state": np.tile(np.repeat([e.l2_state for e in entrants], per_round), rounds),
    }
    schema = schema_of("samples")
    arrays = [pa.array(columns[name], type=schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema).filter(pa.array(keep))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Race(entrants=trio(dispatch=95.0)))
