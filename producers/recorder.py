"""What a race writes to the lake, table by table.

Every method appends one file. The order of the calls is the contract: policy, run, roster, cells, then
measurements; and in a unit (one session of one cell) verdicts before the samples, whose file is what
makes the unit done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from producers.environment import Environment
from producers.plan import Cell, Seat
from warehouse.append import append

Row = dict[str, Any]

_VERDICT_COLUMNS = (
    "status",
    "reason_code",
    "fault",
    "detail",
    "relative_error",
    "max_abs_error",
    "mismatch_share",
    "tolerance",
    "repeatability",
    "output_sha256",
    "inputs_sha256",
    "config_source",
    "config_json",
    "tuned_triton_version",
    "launches",
)
_WORKER_COLUMNS = (
    "pid",
    "python_version",
    "torch_version",
    "triton_version",
    "package_version",
    "source_sha256",
    "cuda_version",
)
_DRAWN_COLUMNS = (
    "inputs_sha256",
    "distinct_experts",
    "max_expert_load",
    "weight_bytes",
    "io_bytes",
    "flops",
)
_DETAIL_CHARACTERS = 500
_FOLDERS = re.compile(r"(?<![\w.])(?:/[^/\s:'\"]+)+/(?=[^/\s:'\"])")


def scrub(detail: str) -> str:
    """``detail`` in one short line, without the folders of this machine (file names stay)."""
    return _FOLDERS.sub("", " ".join(detail.split()))[:_DETAIL_CHARACTERS]


class Recorder:
    """Appends the rows of one run to one lake.

    Args:
        lake: the lake's folder.
        run_id: identifier of the run.
        next_event: sequence number of the next row of ``runs``.
        producer: whose run it is.

    Every method may raise :class:`warehouse.errors.WarehouseError` (read-only folder, full disk).
    """

    def __init__(self, lake: Path, run_id: str, next_event: int = 0, producer: str = "race") -> None:
        self.lake = lake
        self.producer = producer
        self.run_id = run_id
        self._next_event = next_event

    def policy(self, sha256: str, text: str) -> None:
        """Register the thresholds that the run will be judged by."""
        self._append("policies", [{"policy_sha256": sha256, "registered_at": _now(), "policy_toml": text}])

    def event(
        self,
        event: str,
        environment: Environment,
        policy_sha256: str,
        *,
        seed: int,
        plan_json: str | None = None,
        detail: str | None = None,
    ) -> None:
        """started, resumed, stopped, interrupted or finished."""
        row = {
            "run_id": self.run_id,
            "event_seq": self._next_event,
            "event": event,
            "recorded_at": _now(),
            "producer": self.producer,
            "policy_sha256": policy_sha256,
            **environment.columns(),
            "seed": seed,
            "plan_json": plan_json,
            "detail": None if detail is None else scrub(detail),
        }
        self._append("runs", [row])
        self._next_event += 1

    def roster(self, seats: Iterable[Seat]) -> None:
        """Who takes part, and which required rivals do not."""
        rows = []
        for seat in seats:
            entrant = seat.entrant
            rows.append(
                {
                    "run_id": self.run_id,
                    "contestant": seat.contestant,
                    "house": seat.house,
                    "role": seat.role,
                    "entered": seat.entered,
                    "precision": seat.precision,
                    "control_of": entrant.control_of if entrant else None,
                    "config_source": entrant.config_source if entrant else None,
                    "implementation": entrant.implementation if entrant else None,
                    "interpreter": Path(entrant.interpreter).name
                    if entrant and entrant.interpreter
                    else None,
                    "recorded_at": _now(),
                }
            )
        self._append("rosters", rows)

    def cells(self, cells: Sequence[Cell], drawn: Mapping[str, Mapping[str, Any]], seed: int) -> None:
        """The cells with the facts of the inputs drawn for them (replies of the referee, by cell id)."""
        rows = []
        for cell in cells:
            facts = drawn[cell.cell_id]
            rows.append(
                {
                    "run_id": self.run_id,
                    **cell.row(),
                    "seed": seed,
                    **{column: facts.get(column) for column in _DRAWN_COLUMNS},
                }
            )
        self._append("cells", rows)

    def worker(
        self, contestant: str, session: int, hello: Mapping[str, Any], environment: Environment
    ) -> None:
        """One worker's answer to hello."""
        row = {
            "run_id": self.run_id,
            "contestant": contestant,
            "session": session,
            "recorded_at": _now(),
            **{column: hello.get(column) for column in _WORKER_COLUMNS},
            "device": environment.device.device,
            "device_uuid": environment.device.device_uuid,
            "driver_version": environment.device.driver_version,
        }
        self._append("workers", [row])

    def verdict(
        self, cell_id: str, contestant: str, mode: str, session: int, stage: str, verdict: Mapping[str, Any]
    ) -> Row:
        """A row of ``verdicts`` (appended with :meth:`verdicts`)."""
        detail = verdict.get("detail")
        return {
            "run_id": self.run_id,
            "cell_id": cell_id,
            "contestant": contestant,
            "timing_mode": mode,
            "session": session,
            "stage": stage,
            "recorded_at": _now(),
            **{column: verdict.get(column) for column in _VERDICT_COLUMNS},
            "detail": None if detail is None else scrub(str(detail)),
        }

    def verdicts(self, rows: Sequence[Row]) -> None:
        """Rows made by :meth:`verdict`."""
        self._append("verdicts", rows)

    def unit(self, verdicts: Sequence[Row], states: Sequence[Row], samples: Sequence[Row]) -> None:
        """One session of one cell. When this returns, the unit's samples are in the lake for good."""
        self._append("verdicts", verdicts)
        self._append("samples", samples)
        # Last: a kill in between leaves a card's state unknown, never that of an attempt that was dropped.
        self._append("device_states", states)

    def cost(self, elapsed_s: float, usd_per_hour: float, first_event: int) -> None:
        """What this invocation cost at the stated rate."""
        row = {
            "cost_id": f"{self.run_id}/{first_event}",
            "run_id": self.run_id,
            "recorded_at": _now(),
            "basis": "rate",
            "amount_usd": elapsed_s / 3600 * usd_per_hour,
            "period_s": elapsed_s,
            "rate_usd_per_h": usd_per_hour,
            "covers": f"one invocation of {self.producer}, its processes included",
            "source": "--rate-usd-per-h",
        }
        self._append("costs", [row])

    def _append(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            append(self.lake, table, list(rows))


def _now() -> datetime:
    return datetime.now(UTC)
