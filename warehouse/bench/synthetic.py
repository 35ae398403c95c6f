"""A lake of synthetic races: as many samples as asked for, in runs that look like those of a race.

A run has the cells and modes of a default race, five contestants, 12 rounds over 6 sessions in shuffled
order. Most cells are complete; some lack a rival, have a refused one, stopped early or hold an impossible
time, so that every outcome occurs. Cells are raced again by later runs, some with newer packages.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from checks.policy import Policy, load_policy
from warehouse.append import append
from warehouse.schema import SCHEMA_VERSION, schema_of

CELLS = tuple(
    (precision, routing, tokens)
    for precision, routing, tokens in itertools.product(
        ("bf16", "int8_w8a16", "int8_w8a8"), ("uniform", "zipf"), (1, 4, 16, 64, 128, 512, 2048)
    )
)
MODES = ("graph", "eager")
# Contestant, house, role, what it repeats.
ENTRANTS = (
    ("dispatch", "dispatch", "required", None),
    ("vllm", "vllm", "required", None),
    ("sglang", "sglang", "required", None),
    ("torch-grouped", "torch", "informational", None),
    ("dispatch-control", "dispatch", "control", "dispatch"),
)
ROUNDS, SESSIONS, SAMPLES = 12, 6, 20
UNIT_ROWS = len(ENTRANTS) * ROUNDS * SAMPLES

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_RUNS_A_DEVICE = 8
_RUNS_A_RELEASE = 3
_FEWEST_RUNS = 6
_SHORT_ROUNDS = 8
_NOISE = 0.005  # standard deviation of one sample
# What may befall a cell beside being complete; each once on every device.
_FATES = (
    "rival-missing",  # no sample and no verdict
    "rival-wrong",  # refused by its own fault
    "rival-not-installed",  # refused by the environment's
    "rivals-wrong",  # both of them
    "one-stopped",  # one contestant has fewer rounds
    "all-stopped",
    "invalid-time",
)
_CHANGED = 0.05  # share of the cells in which a run finds something else than the runs before it
# True time of a rival in multiples of dispatch's: clear, within the tie band, and at its edge.
_SPEEDS = (0.9, 0.95, 0.985, 0.9905, 0.997, 1.0, 1.004, 1.009, 1.012, 1.05, 1.2)


@dataclass(frozen=True)
class Written:
    """What was written, and the seconds that :func:`warehouse.append.append` took for the samples."""

    rows: int
    runs: int
    devices: int
    files: int
    append_seconds: float


@dataclass(frozen=True)
class _Run:
    run_id: str
    start: datetime
    device_number: int
    repeat: int  # how often the device was raced before
    cells: tuple[tuple[str, str, int], ...]
    fates: tuple[str, ...]  # by cell

    @property
    def device(self) -> str:
        return f"Synthetic GPU {self.device_number}"

    @property
    def cell_ids(self) -> list[str]:
        return [f"deepseek-moe-16b/{p}/{r}/{t}" for p, r, t in self.cells]


def write(lake: Path, rows: int, rows_a_file: int = 1 << 20) -> Written:
    """Write a lake with exactly ``rows`` samples; equal arguments give equal rows.

    Args:
        lake: a new folder.
        rows: samples, at least 1; a small lake has fewer cells a run rather than fewer runs.
        rows_a_file: most rows of one file of samples.
    """
    policy = load_policy()
    append(
        lake,
        "policies",
        [{"policy_sha256": policy.sha256, "registered_at": _EPOCH, "policy_toml": policy.text}],
    )
    cells = min(len(CELLS), max(2, rows // (UNIT_ROWS * len(MODES) * _FEWEST_RUNS)))
    runs = -(-rows // (cells * len(MODES) * UNIT_ROWS))
    devices = max(1, runs // _RUNS_A_DEVICE)
    left, seconds, number, files = rows, 0.0, 0, 0
    while left:
        rng = np.random.default_rng(number)
        run = _run(number, devices, cells, rng)
        for table, data in _announced(run, policy).items():
            append(lake, table, data)
        samples = _samples(run, rng)[:left]
        for at in range(0, samples.num_rows, rows_a_file):
            part = samples.slice(at, rows_a_file)
            begin = time.perf_counter()
            append(lake, "samples", part)
            seconds += time.perf_counter() - begin
            files += 1
        left -= samples.num_rows
        number += 1
    return Written(rows, number, min(devices, number), files, seconds)


def _run(number: int, devices: int, cells: int, rng: np.random.Generator) -> _Run:
    start = _EPOCH + timedelta(hours=number)
    # Spread over the list, so that a small lake has every precision too.
    chosen = tuple(CELLS[i * len(CELLS) // cells] for i in range(cells))
    lasting, of_today = (_fates(cells, g) for g in (np.random.default_rng([number % devices, 1]), rng))
    fates = tuple(np.where(rng.random(cells) < _CHANGED, of_today, lasting).tolist())
    run_id = f"{start:%Y%m%dT%H%M%SZ}-{number:08x}"
    return _Run(run_id, start, number % devices, number // devices, chosen, fates)


def _fates(cells: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.permutation([*_FATES, *["complete"] * max(0, cells - len(_FATES))])[:cells]


def _announced(run: _Run, policy: Policy) -> dict[str, list[dict[str, Any]]]:
    """Every table of a run but samples and policies."""
    release = f"1.{run.repeat // _RUNS_A_RELEASE}"
    shape = {"workload": "deepseek-moe-16b", "experts": 64, "top_k": 6, "hidden": 2048, "intermediate": 1408}
    events = [
        {
            "run_id": run.run_id, "event_seq": seq, "event": event, "recorded_at": run.start, "producer": "race",
            "policy_sha256": policy.sha256, "device": run.device, "driver_version": "580.1",
            "plan_json": json.dumps({"mode": MODES}),
        }
        for seq, event in enumerate(("started", "finished"))
    ]  # fmt: skip
    rosters = [
        {
            "run_id": run.run_id, "contestant": name, "house": house, "role": role, "entered": True,
            "precision": precision, "control_of": control_of,
        }
        for name, house, role, control_of in ENTRANTS
        for precision in sorted({cell[0] for cell in run.cells})
    ]  # fmt: skip
    cells = [
        {"run_id": run.run_id, "cell_id": cell_id, "precision": p, "routing": r, "tokens": t, **shape}
        for cell_id, (p, r, t) in zip(run.cell_ids, run.cells, strict=True)
    ]
    workers = [
        {
            "run_id": run.run_id, "contestant": name, "session": session, "recorded_at": run.start,
            "torch_version": "2.13.0", "triton_version": "3.7.1", "package_version": release,
            "device": run.device, "device_uuid": f"GPU-{run.device}", "source_sha256": f"{name} {release}",
        }
        for name, *_ in ENTRANTS
        for session in range(SESSIONS)
    ]  # fmt: skip
    verdicts = [
        {
            "run_id": run.run_id, "cell_id": cell_id, "contestant": name, "session": session,
            "recorded_at": run.start + timedelta(minutes=session), **verdict,
        }
        for cell_id, fate in zip(run.cell_ids, run.fates, strict=True)
        for session in range(SESSIONS)
        for name, *_ in ENTRANTS
        for verdict in _verdicts(name, fate)
    ]  # fmt: skip
    return {"runs": events, "rosters": rosters, "cells": cells, "workers": workers, "verdicts": verdicts}


def _verdicts(contestant: str, fate: str) -> list[dict[str, Any]]:
    if contestant == "vllm" and fate == "rival-missing":
        return []
    refusal = {"timing_mode": "all", "stage": "prepare", "status": "refused"}
    if (contestant == "sglang" and fate == "rival-wrong") or (
        contestant in ("vllm", "sglang") and fate == "rivals-wrong"
    ):
        return [{**refusal, "reason_code": "wrong-output", "fault": "contestant"}]
    if contestant == "vllm" and fate == "rival-not-installed":
        return [{**refusal, "reason_code": "not-installed", "fault": "environment"}]
    return [{"timing_mode": mode, "stage": "timed-output", "status": "passed"} for mode in MODES]


def _absent(fate: str) -> tuple[str, ...]:
    """Contestants without any sample."""
    return {
        "rival-missing": ("vllm",),
        "rival-wrong": ("sglang",),
        "rival-not-installed": ("vllm",),
        "rivals-wrong": ("vllm", "sglang"),
    }.get(fate, ())


def _samples(run: _Run, rng: np.random.Generator) -> pa.Table:
    """Return the samples of a run in the lake's schema; axes are cell, mode, round, contestant, sample."""
    names = [entrant[0] for entrant in ENTRANTS]
    shape = (len(run.cells), len(MODES), ROUNDS, len(names), SAMPLES)
    position = np.argsort(rng.random(shape[:4]), axis=3)
    session = np.arange(ROUNDS) * SESSIONS // ROUNDS
    # The truth belongs to device, cell and mode, so that most repeated runs agree.
    truth = np.random.default_rng(run.device_number).choice(_SPEEDS, size=(*shape[:2], 3))
    changed = rng.random(shape[:2]) < _CHANGED
    truth[changed] = rng.choice(_SPEEDS, size=(int(changed.sum()), 3))
    level = np.ones((*shape[:2], len(names)))
    level[:, :, 1:4] = truth
    drift = 1 + 0.005 * np.sin(np.arange(ROUNDS))
    times = 100.0 * level[:, :, None, :, None] * drift[None, None, :, None, None]
    times = times * (1 + _NOISE * rng.standard_normal(shape))
    keep = np.ones(shape[:4], dtype=bool)
    for at, fate in enumerate(run.fates):
        keep[at, :, :, [names.index(name) for name in _absent(fate)]] = False
        if fate == "one-stopped":
            keep[at, :, _SHORT_ROUNDS:, 0] = False
        elif fate == "all-stopped":
            keep[at, :, _SHORT_ROUNDS:] = False
        elif fate == "invalid-time":
            times[at, 0, 0, 1, 0] = 0.0
    chosen = np.flatnonzero(np.repeat(keep.reshape(-1), SAMPLES))
    at_cell, at_mode, at_round, at_name, sample = np.unravel_index(chosen, shape)
    size = len(chosen)
    columns = {
        "schema_version": np.full(size, SCHEMA_VERSION),
        "run_id": _text(np.zeros(size, dtype=np.int64), [run.run_id]),
        "cell_id": _text(at_cell, run.cell_ids),
        "contestant": _text(at_name, names),
        "timing_mode": _text(at_mode, list(MODES)),
        "session": session[at_round],
        "round": at_round,
        "position": position[at_cell, at_mode, at_round, at_name],
        "sample": sample,
        "time_us": times.reshape(-1)[chosen],
        "l2_state": _text(np.zeros(size, dtype=np.int64), ["flushed"]),
    }
    schema = schema_of("samples")
    arrays = [pa.array(columns[name], type=schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)


def _text(codes: np.ndarray[Any, Any], names: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int32()), names).cast(pa.string())
